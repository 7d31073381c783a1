"""muster: elastic distributed training."""
from . import _muster
from .errors import *  # noqa: F401,F403
