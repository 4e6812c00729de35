"""The local engine: prefill with torch on this machine's CPU. The only package that imports torch."""
