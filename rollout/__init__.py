"""Rolling a Writer out over a network, and the frozen memory and query pipeline that its memory is asked through."""

import os

# MKL multiplies small matrices by another kernel than large ones, and a text's vector then depends on its batch in the last
# bits (seen on AVX-512 without AMX). In its strict mode, read at the first product, the bytes are the same at every size.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
