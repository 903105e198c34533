"""The processor as a platform of verl: VERL_USE_EXTERNAL_MODULES=verl_cpu, VERL_PLATFORM=cpu, VERL_ENGINE_DEVICE=cuda.

The last takes the engine that is written for GPUs, as none is for processors. A first attempt goes slowly, so that
it can be ended between two checkpoints.
"""

import os
import time
from contextlib import nullcontext
from types import ModuleType

import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

PAUSE = 2.0 if os.environ.get("TUNEPLANE_ATTEMPT") == "1" else 0.0


def nothing(*_args, **_options):
    """What there is to do for a processor."""


def rest(*_args):
    """verl empties the cache before each checkpoint."""
    time.sleep(PAUSE)


class Processor(ModuleType):
    """`torch.cpu`, with what verl asks `torch.cuda` for beside it."""

    memory = 16 << 30

    get_rng_state = staticmethod(lambda *_: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, *_: torch.set_rng_state(state))
    get_device_name = staticmethod(lambda *_: "cpu")
    mem_get_info = staticmethod(lambda *_: (Processor.memory, Processor.memory))
    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = staticmethod(
        lambda *_: 0
    )
    empty_cache = staticmethod(rest)
    ipc_collect = reset_peak_memory_stats = set_device = staticmethod(nothing)

    def __getattr__(self, name):
        return getattr(torch.cpu, name)


@PlatformRegistry.register(platform="cpu")
class Cpu(PlatformBase):
    device_name = vendor_name = "cpu"
    device_module = Processor("torch.cpu")

    set_device = synchronize = empty_cache = set_allocator_settings = nothing
    profiler_start = profiler_stop = cudart = nothing

    def is_available(self):
        return True

    def device_count(self):
        return 1

    def current_device(self):
        return "cpu"

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg):
        return nullcontext()

    def ray_resource_name(self):
        return "CPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False


# verl 0.9.1 asks for a backend of the processor and one of the device, and here the two are one
_init = torch.distributed.init_process_group


def init_process_group(backend=None, **options):
    _init("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, **options)


torch.distributed.init_process_group = init_process_group
