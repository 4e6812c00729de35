"""dbt's own adapter tests, on statements without an AI call: what an adapter must do whatever its database adds.

A class that cannot pass is a strict xfail with the cause; one that does not apply is listed in `test_complete.py`.
"""
