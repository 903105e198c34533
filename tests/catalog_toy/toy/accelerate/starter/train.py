"""Fits one number by gradient descent under Accelerate and writes what each process saw of the world."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import torch
from accelerate import Accelerator

OUTPUT = Path(os.environ["TUNEPLANE_OUTPUT_DIR"])


def main() -> None:
    torch.manual_seed(0)
    accelerator = Accelerator()
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    generator = torch.Generator().manual_seed(accelerator.process_index)
    losses = []
    for _ in range(20):
        inputs = torch.randn(16, 8, generator=generator).to(accelerator.device)
        loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
    me = {"rank": accelerator.process_index, "world": accelerator.num_processes, "host": socket.gethostname()}
    told = {
        name: os.environ.get(name) for name in ("ACCELERATE_USE_FSDP", "FSDP_VERSION", "FSDP_MIN_NUM_PARAMS")
    }
    me |= {"kind": str(accelerator.distributed_type), "told": told, "losses": losses}
    (OUTPUT / f"rank-{accelerator.process_index}.json").write_text(json.dumps(me))
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
