"""How near its floor is the local engine, and how far ahead of others that hold the same weights?"""
