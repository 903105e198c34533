"""Train an image classifier with DistributedDataParallel. This file is yours: change what you like.

`tp` starts it under torchrun, one process for each GPU (or each CPU process of the profile). By
hand: `python train.py --epochs 1`, or `torchrun --nproc-per-node 2 train.py --epochs 1`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pickle
import random
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic matrix products

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, random_split
from torch.utils.data import Dataset as Data

from tuneplane import report

RANK, WORLD_SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
# What torch.load and load_state_dict raise for a file that is cut off, or of another model.
BROKEN = (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError)
SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}


def say(text: str) -> None:
    if RANK == 0:
        print(text, flush=True)


def fail(message: str) -> NoReturn:
    print(f"train.py: {message}", file=sys.stderr)
    leave(1)


def leave(code: int) -> NoReturn:
    """End at once: threads of torch can abort an ordinary end (SIGABRT, seen with gloo on a busy machine)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def number(kind: type, low: float, above: bool = False) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if not math.isfinite(value) or value < low or (above and value == low):
            raise argparse.ArgumentTypeError(f"{text} is not {'above' if above else 'from'} {low}")
        return value

    read.__name__ = kind.__name__  # for the message of a ValueError
    return read


def parse_args() -> argparse.Namespace:
    count, positive = number(int, 1), number(float, 0, above=True)
    parser = argparse.ArgumentParser(description="Train an image classifier", allow_abbrev=False)
    add = parser.add_argument
    add("--epochs", type=count, default=10)
    add("--max-steps", type=count, help="stop here; the schedule still spans all epochs")
    add("--batch-size", type=count, default=64, help="images per optimizer step, all processes")
    add("--learning-rate", type=positive, default=0.001)
    add("--optimizer", choices=["adamw", "sgd"], default="adamw")
    add("--weight-decay", type=number(float, 0), default=0.01)
    add("--momentum", type=number(float, 0), default=0.9, help="of sgd")
    add("--lr-scheduler", choices=["constant", "step", "cosine"], default="constant")
    add("--max-grad-norm", type=positive)
    add("--amp", choices=["true", "false"], default="false", help="compute in bfloat16")
    add("--seed", type=number(int, 0), default=1)
    add("--arch", default="small-cnn", help="small-cnn, or the name of a torchvision model")
    add("--num-classes", type=count, help="default: as many as the data has")
    add("--input-pipeline", choices=["digits", "image-folder"], default="digits")
    add("--num-workers", type=number(int, 0), default=0, help="loaders beside each process")
    add("--log-interval", type=count, default=10, help="steps")
    add("--eval-interval-epochs", type=count, default=1)
    add("--checkpoint-interval-epochs", type=count, default=1)
    add("--checkpoint-keep", type=count, default=2)
    args = parser.parse_args()
    if args.batch_size % WORLD_SIZE:
        parser.error(f"--batch-size {args.batch_size} does not divide by {WORLD_SIZE} processes")
    return args


def start_processes() -> torch.device:
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:  # by hand, one process: it needs no address and no port
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device


def gather(value: Any) -> list[Any]:
    values = [None] * WORLD_SIZE
    dist.all_gather_object(values, value)
    return values


def average_each(_, bucket):  # no annotations: DDP compares them, and cannot read postponed ones
    """Average each gradient over the ranks on its own, which gives a resumed run the same bits.

    In a sum over a whole bucket the order of the ranks hangs on where in the bucket a gradient
    lies, and DDP rearranges the buckets after the first step of each start.
    """
    for gradient in bucket.gradients():
        dist.all_reduce(gradient)
    done = torch.futures.Future()
    done.set_result(bucket.buffer().div_(WORLD_SIZE))
    return done


@dataclasses.dataclass
class Images(Data):
    """Pairs of a (3, size, size) image in -1..1 and a label; a source is a file, or pixels."""

    sources: list[Any]
    labels: list[int]
    size: int

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        source, size = self.sources[index], (self.size, self.size)
        if isinstance(source, Path):
            return read_image(source, size), self.labels[index]
        return F.interpolate(source[None], size)[0].expand(3, -1, -1), self.labels[index]


def read_image(path: Path, size: tuple[int, int]) -> torch.Tensor:
    from PIL import Image

    try:
        with Image.open(path) as image:
            pixels = np.array(image.convert("RGB").resize(size, Image.Resampling.BILINEAR))
    except (OSError, ValueError) as error:
        raise RuntimeError(f"cannot read the image {path}: {error}") from error
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 127.5 - 1


def split(images: Images) -> list[Data]:
    """Four images in five and the fifth: the same ones on every rank and whatever the seed."""
    return random_split(images, [0.8, 0.2], torch.Generator().manual_seed(0))


def load_data(args: argparse.Namespace) -> tuple[Data, Data, int]:
    """The training images, the validation images and the number of classes."""
    if args.input_pipeline == "digits":
        from sklearn.datasets import load_digits

        digits, size = load_digits(), 8 if args.arch == "small-cnn" else 224
        pixels = torch.from_numpy(digits.images).float()[:, None] / 8 - 1
        train, validation = split(Images(list(pixels), digits.target.tolist(), size))
        classes = 10
    else:
        size = 64 if args.arch == "small-cnn" else 224
        train, names = image_folder("TUNEPLANE_TRAIN_DATA", size)
        classes = len(names)
        if os.environ.get("TUNEPLANE_VALIDATION_DATA"):
            validation, _ = image_folder("TUNEPLANE_VALIDATION_DATA", size, names)
        else:
            train, validation = split(train)
    if args.num_classes is not None and args.num_classes < classes:
        fail(f"--num-classes {args.num_classes}, but the data has {classes} classes")
    if not len(validation):
        fail(f"{len(train)} images are too few to keep one in five for validation")
    if len(train) < args.batch_size:
        fail(f"--batch-size {args.batch_size}, but there are {len(train)} training images")
    return train, validation, args.num_classes or classes


def image_folder(variable: str, size: int, names: list[str] | None = None) -> tuple[Images, list[str]]:
    """The images of CLASS/IMAGE.png and the like under $variable, and the names of the classes."""
    folder = Path(os.environ.get(variable) or "")
    if not os.environ.get(variable) or not folder.is_dir():
        fail(f"--input-pipeline image-folder needs a folder in {variable}, found `{folder}`")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    names = found if names is None else names
    unknown = [name for name in found if name not in names]
    if unknown:
        fail(f"{folder} has classes that the training data has not: {', '.join(unknown)}")
    files = {name: sorted((folder / name).rglob("*")) for name in names}
    pairs = [(p, i) for i, n in enumerate(names) for p in files[n] if p.suffix.lower() in SUFFIXES]
    if not pairs:
        fail(f"{folder} has no images: expected CLASS/IMAGE.png, .jpg and the like")
    return Images([path for path, _ in pairs], [label for _, label in pairs], size), names


def build_model(arch: str, classes: int) -> nn.Module:
    if arch == "small-cnn":
        layers: list[nn.Module] = []
        for before, width in (3, 32), (32, 64), (64, 128):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.GroupNorm(8, width)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # RuntimeError: it was built for another torch
        fail(f"--arch {arch} needs torchvision in the image ({error}); without it: small-cnn")
    if arch not in models.list_models():
        fail(f"--arch {arch} is neither small-cnn nor a model of this torchvision")
    return models.get_model(arch, weights=None, num_classes=classes)


def build_optimizer(args: argparse.Namespace, model: nn.Module) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": args.learning_rate, "weight_decay": args.weight_decay}
    if args.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), momentum=args.momentum, **options)
    return torch.optim.AdamW(model.parameters(), **options)


def lr_factor(name: str, step: int, horizon: int) -> float:
    """What the learning rate is multiplied by: `step` divides it by ten after each third."""
    if name == "step":
        return 0.1 ** min(3 * step // horizon, 2)
    return 0.5 * (1 + math.cos(math.pi * min(step / horizon, 1))) if name == "cosine" else 1.0


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Under its own name a file is only ever whole, also when the node dies in the middle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest that loads, as rank 0 sees it, so that all ranks take the same one."""
    found: list[Path | None] = [None]
    for path in sorted(folder.glob("step-*.pt"), reverse=True) if RANK == 0 else ():
        try:
            torch.load(path, map_location="cpu", weights_only=True)
        except BROKEN as error:
            say(f"skipped the checkpoint {path}: it does not load ({type(error).__name__})")
        else:
            found = [path]
            break
    dist.broadcast_object_list(found, 0)
    return found[0]


@dataclasses.dataclass
class Progress:
    epoch: int = 0  # epochs that are done
    offset: int = 0  # images already used of the epoch under way
    step: int = 0  # optimizer steps that are done
    samples_seen: int = 0  # training images, over all ranks and attempts


class Trainer:
    def __init__(self, args: argparse.Namespace, device: torch.device, output: Path) -> None:
        self.args, self.device, self.progress = args, device, Progress()
        self.folder = output / "checkpoints"
        self.train_set, self.validation_set, classes = load_data(args)
        random.seed(args.seed + RANK)
        np.random.seed((args.seed + RANK) % 2**32)
        torch.manual_seed(args.seed + RANK)  # DDP hands the first weights of rank 0 to all
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.module = build_model(args.arch, classes).to(device)
        self.model = DistributedDataParallel(self.module)
        if device.type == "cpu":
            self.model.register_comm_hook(None, average_each)
        self.optimizer = build_optimizer(args, self.module)
        horizon = args.epochs * (len(self.train_set) // args.batch_size)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: lr_factor(args.lr_scheduler, step, horizon)
        )
        self.parts = {"model": self.module, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def fit(self) -> dict[str, Any]:
        """Train to the end; returns the last validation."""
        args, progress, result = self.args, self.progress, None
        while not self.finished():
            before = progress.epoch
            self.train_epoch()
            whole, done = progress.epoch > before, self.finished()
            if done or (whole and progress.epoch % args.eval_interval_epochs == 0):
                result = self.evaluate()
            if done or (whole and progress.epoch % args.checkpoint_interval_epochs == 0):
                self.save()
        return result or self.evaluate()

    def finished(self) -> bool:
        steps = self.args.max_steps or math.inf
        return self.progress.epoch >= self.args.epochs or self.progress.step >= steps

    def train_epoch(self) -> None:
        """From where the epoch stands to its end, or to the last step of the run."""
        args, progress = self.args, self.progress
        self.model.train()
        loss_sum, images, lr = torch.zeros((), device=self.device), 0, 0.0
        for batch in self.loader(self.train_set, self.train_batches()):
            lr = self.scheduler.get_last_lr()[0]
            loss_sum += self.train_step(*batch) * len(batch[1])
            images += len(batch[1])
            if progress.step % args.log_interval == 0:
                self.log_training(loss_sum, images, lr)
                loss_sum, images = torch.zeros_like(loss_sum), 0
            if self.finished():
                break
        self.log_training(loss_sum, images, lr)
        if progress.offset + args.batch_size > len(self.train_set):
            progress.epoch, progress.offset = progress.epoch + 1, 0

    def train_batches(self) -> list[list[int]]:
        """This rank's share of every batch left in the epoch; the last images may fill no batch.

        The order hangs on the seed and the epoch alone: a resumed run goes on where it stopped.
        """
        size = self.args.batch_size
        generator = torch.Generator().manual_seed(self.args.seed * 1_000_003 + self.progress.epoch)
        order = torch.randperm(len(self.train_set), generator=generator).tolist()
        starts = range(self.progress.offset, len(order) - size + 1, size)
        return [order[at : at + size][RANK::WORLD_SIZE] for at in starts]

    def loader(self, data: Data, batches: list[list[int]]) -> DataLoader:
        return DataLoader(
            data,
            batch_sampler=batches,
            num_workers=self.args.num_workers,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator().manual_seed(self.args.seed),  # leaves the global one alone
        )

    def forward(self, model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Any:
        """The mean cross entropy in nats, and how many labels are the most likely class."""
        labels = labels.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.args.amp == "true"):
            logits = model(images.to(self.device, non_blocking=True))
            return F.cross_entropy(logits, labels), (logits.argmax(1) == labels).sum()

    def train_step(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss, _ = self.forward(self.model, images, labels)
        loss.backward()
        if self.args.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.progress.step += 1
        self.progress.offset += self.args.batch_size
        return loss.detach()

    def total(self, *values: Any) -> list[float]:
        """The sum of each value over all ranks, exact for whole numbers up to 2**53."""
        sums = torch.tensor([float(v) for v in values], dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def log_training(self, loss_sum: torch.Tensor, images: int, lr: float) -> None:
        loss_total, seen = self.total(loss_sum, images)
        if seen:
            self.progress.samples_seen += int(seen)
            report.log({"train/loss": loss_total / seen, "train/lr": lr}, self.progress.step)

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Every validation image exactly once, on one of the ranks."""
        for buffer in self.module.buffers():  # running statistics: rank 0's, as in a checkpoint
            dist.broadcast(buffer, 0)
        self.module.eval()
        own = list(range(RANK, len(self.validation_set), WORLD_SIZE))
        loss_sum, right, count = 0.0, 0, len(own)
        batches = [own[at : at + 256] for at in range(0, count, 256)]
        for batch in self.loader(self.validation_set, batches):
            loss, hits = self.forward(self.module, *batch)
            loss_sum, right = loss_sum + loss.item() * len(batch[1]), right + hits.item()
        loss_sum, right, count = self.total(loss_sum, right, count)
        loss, accuracy, p = loss_sum / count, right / count, self.progress
        report.log({"validation/loss": loss, "validation/accuracy": accuracy}, p.step)
        say(
            f"epoch {p.epoch} step {p.step}: {p.samples_seen} training images seen over all ranks,"
            f" validation loss {loss:.4f} accuracy {accuracy:.4f} on {int(count)} images"
        )
        return {"accuracy": accuracy, "loss": loss}

    def save(self) -> None:
        cuda = torch.cuda.get_rng_state() if self.device.type == "cuda" else None
        rng = gather((random.getstate(), torch.get_rng_state(), cuda))
        if RANK != 0:
            return
        state: dict[str, Any] = {name: part.state_dict() for name, part in self.parts.items()}
        state.update(dataclasses.asdict(self.progress), rng=rng)
        path = self.folder / f"step-{self.progress.step:08d}.pt"
        write_atomically(path, lambda file: torch.save(state, file))
        older = sorted(other for other in self.folder.glob("step-*.pt") if other <= path)
        for stale in [*older[: -self.args.checkpoint_keep], *self.folder.glob(".step-*.tmp")]:
            stale.unlink()

    def resume(self) -> None:
        """From the file in TUNEPLANE_RESUME_FROM, else from the newest one of this run."""
        given = os.environ.get("TUNEPLANE_RESUME_FROM")
        path = Path(given) if given else newest_checkpoint(self.folder)
        if path is None:
            return
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
            self.progress = Progress(*(state[f.name] for f in dataclasses.fields(Progress)))
            rng = state["rng"]
        except BROKEN as error:
            fail(f"cannot resume from {path}: {type(error).__name__}: {error}")
        if len(rng) == WORLD_SIZE:  # with another number of ranks the seed's own states stay
            python, cpu, cuda = rng[RANK]
            random.setstate(python)
            torch.set_rng_state(cpu)
            if cuda is not None and self.device.type == "cuda":
                torch.cuda.set_rng_state(cuda)
        say(f"resumed from {path} at epoch {self.progress.epoch} step {self.progress.step}")


def main() -> None:
    args = parse_args()
    device = start_processes()
    hosts = sorted(set(gather(socket.gethostname())))
    say(f"world size: {WORLD_SIZE}\nhosts: {', '.join(hosts)}")
    say(f"device: {device.type}, torch {torch.__version__}, backend {dist.get_backend()}")
    output = Path(os.environ.get("TUNEPLANE_OUTPUT_DIR") or "output")
    trainer = Trainer(args, device, output)
    say(f"images: {len(trainer.train_set)} training, {len(trainer.validation_set)} validation")
    report.init({**vars(args), "world_size": WORLD_SIZE, "device": device.type})
    trainer.resume()
    result, progress = trainer.fit(), trainer.progress
    result.update(samples_seen=progress.samples_seen, steps=progress.step)
    result.update(world_size=WORLD_SIZE, hosts=hosts)
    if RANK == 0:
        text = json.dumps(result, indent=2) + "\n"
        write_atomically(output / "result.json", lambda file: file.write(text.encode()))
    report.finish()
    dist.barrier()
    dist.destroy_process_group()
    leave(0)


if __name__ == "__main__":
    main()
