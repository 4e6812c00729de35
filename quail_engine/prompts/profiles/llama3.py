"""Llama 3, 3.1, 3.2 and 3.3. Not measured here yet.

Without a system turn, as in Llama 3: the later templates write today's date there, and an answer must not depend on the day.
"""

from __future__ import annotations

from quail_engine.prompts.profile import Profile, Wrapper
from quail_engine.prompts.profiles.layouts import STATEMENT

LLAMA3 = Profile(
    name="llama3",
    version=1,
    wrapper=Wrapper(
        begin="<|begin_of_text|>",
        system="<|start_header_id|>system<|end_header_id|>\n\n{message}<|eot_id|>",
        message="",
        user="<|start_header_id|>user<|end_header_id|>\n\n",
        assistant="<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        thought="",
        stop="<|eot_id|>",
        following="",
    ),
    spellings=(("TRUE", "FALSE"), ("True", "False"), ("true", "false"), ("Yes", "No"), ("YES", "NO"), ("yes", "no")),
    layout=STATEMENT,
)
