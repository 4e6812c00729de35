"""Kernels for CUDA devices: one a file, each with a wrapper and a plain-torch reference of the same signature.

Wrappers allocate outputs, check shapes, and launch. On the CPU, and on a device without Triton, the references serve.
"""
