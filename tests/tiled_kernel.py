"""A tiled online-softmax kernel in NumPy, honest or with one mistake: what validator tests judge."""

import numpy as np

from evoflash.numerics import decode, encode
from evoflash.operations.attention.forms import dense


def tiled(trial, *, dtype="fp16", causal=False, tile=64, tau=0.0, sampled=False, fault=""):
    """Online softmax in fp32 over tiles of keys, P and O rounded to 16 bits, the maximum moved only when it
    grows by more than `tau`, or taken of every second group of 8 keys; `fault` names a mistake to make.
    """
    q, k, v = (decode(x, dtype) for x in (trial.q, trial.k, trial.v))
    ratio, groups = q.shape[1] // k.shape[1], np.arange(q.shape[1])
    groups = groups % k.shape[1] if fault == "heads dealt out in turns" else groups // ratio
    k, v = k[:, groups], v[:, groups]
    if fault == "batch 0 for all":
        k, v = (np.repeat(x[:1], len(q), axis=0) for x in (k, v))
    scale = 0.125 * (1.01 if fault == "scale off by 1 %" else 1)
    largest = np.abs(v).max(axis=(-1, -2), keepdims=True)
    v = np.where(np.abs(v) < largest / 50, 0, v) if fault == "small values skipped" else v
    rows, keys = q.shape[2], k.shape[2]
    seen = np.arange(rows)[:, None] + 1 + keys - rows if causal else np.full((rows, 1), keys)
    seen = seen + {"causal off by one": 1, "causal loses the diagonal": -1}.get(fault, 0)
    top = np.full((*q.shape[:3], 1), 0.0 if fault == "no maximum subtracted" else -np.inf, np.float32)
    total, out = np.zeros_like(top), np.zeros_like(q)
    last = keys - 1 if fault == "last key dropped" else keys
    for start in range(0, last, tile):
        stop = min(start + tile, last)
        if fault == "second tile dropped" and start == tile:
            continue
        scores = np.float32(scale) * (q @ k[:, :, start:stop].swapaxes(-1, -2))
        scores = np.where(np.arange(start, stop) < seen, scores, -np.inf).astype(np.float32)
        looked_at = scores[..., np.arange(stop - start) // 8 % 2 == 0] if sampled else scores
        peak = np.maximum(top, looked_at.max(-1, keepdims=True))
        rises = np.where(np.isfinite(top), peak - np.where(np.isfinite(top), top, 0) > tau, True)
        moves = rises & (fault != "no maximum subtracted")
        new = np.where(moves, peak, top)
        base = np.where(np.isfinite(new), new, 0)
        fade = np.where(np.isfinite(top), np.exp(top - base), 0)
        weights = np.exp(scores - base)
        total = total * fade + weights.sum(-1, keepdims=True)
        if fault == "P with 3 mantissa bits":
            mantissa, exponent = np.frexp(weights)
            weights = np.ldexp(np.round(mantissa * 16) / 16, exponent)
        fade = 1 if fault == "output not rescaled" else fade
        out = out * fade + decode(encode(weights, dtype), dtype) @ v[:, :, start:stop]
        top = new
    divisor = np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(top), top, 0) + np.log(total))[..., 0]
    return dense.output(encode(out / divisor, dtype), lse.astype(np.float32))
