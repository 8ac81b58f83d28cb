"""Training steps of models as their authors wrote them, at tiny sizes.

`CASES` maps a name to a function that builds the step, its arguments and schedules
written by hand. Everything is drawn at random; nothing is downloaded. Needs the extras
`frameworks` and `models`. Import it, and build, with 64-bit types on.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.zoo import graphs, huggingface, recurrent, search, vision
from benchmarks.zoo.case import Case as Case

CASES: dict[str, Callable[[], Case]] = {
    "gpt2": huggingface.gpt2,
    "bert": huggingface.bert,
    "t5": huggingface.t5,
    "vit": huggingface.vit,
    "llama": huggingface.llama,
    "graph_network": graphs.simulator,
    "tree_search": search.gumbel_muzero,
    "resnet": vision.resnet,
    "conv_attention": vision.conv_attention,
    "lstm_attention": recurrent.lstm_attention,
}
