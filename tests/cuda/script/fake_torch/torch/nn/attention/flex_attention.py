# SPDX-License-Identifier: MIT
from torch import _nothing

create_block_mask = flex_attention = _nothing
