from builders import cold_cache, own_cache  # noqa: F401
from plan.cases import tuned  # noqa: F401
