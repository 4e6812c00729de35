"""Models on this machine: which are known, where their weights come from, and the converted folder that the engine loads."""

from quail_engine.models.folder import ModelFolder, check, find
from quail_engine.models.registry import REGISTRY, Artefact

__all__ = ["REGISTRY", "Artefact", "ModelFolder", "check", "find"]
