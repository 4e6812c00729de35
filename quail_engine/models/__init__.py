"""Models on this machine: which are known, where their weights come from, and the converted folder that the engine loads."""

from quail_engine.models.folder import ModelFolder, check, find, precision_of
from quail_engine.models.registry import REGISTRY, Artefact
from quail_engine.models.sources import Progress, pull

__all__ = ["REGISTRY", "Artefact", "ModelFolder", "Progress", "check", "find", "precision_of", "pull"]
