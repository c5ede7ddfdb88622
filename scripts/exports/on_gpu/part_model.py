"""A small random Llama with grouped queries and a cache: 64 tokens with PyTorch's attention and with ours.

A random model's two best tokens are often within the rounding of 16 bits, where no two attentions need agree.
So the prompts are those of many whose choices are the clearest with PyTorch's attention; how clear they are
is reported, in standard deviations of the logits, beside each attention's error against the model in float32.
"""

import time

import torch
from cases import DTYPES

TOKENS, PROMPT, DRAWN, KEPT = 64, 100, 4096, 4
HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 8, 2, 128, 16


class Both:
    """A prefill's kernel and a decode's as one function: what the number of queries says."""

    def __init__(self, prefill, decode):
        self.prefill, self.decode, self.calls = prefill, decode, {"prefill": 0, "decode": 0}

    def __call__(self, q, k, v, **how):
        which = "decode" if q.shape[2] == 1 else "prefill"
        self.calls[which] += 1
        return getattr(self, which)(q, k, v, **how)


def run(cases):
    found = {"drawn": DRAWN, "rows": [], "bad": []}
    tokens = 8 if cases.rehearse else TOKENS
    exact = _model(cases).to(cases.device)
    for dtype, ending in (("fp16", ""), ("bf16", "_bf16")):
        module = cases.module(f"prefill{ending}")
        both = Both(cases.attention(f"prefill{ending}"), cases.attention(f"decode{ending}"))
        module.register_transformers(both, "exported")
        model = _model(cases).to(cases.device, DTYPES[dtype])
        prompts, gap = _clear_prompts(cases, model, tokens)
        row = {"dtype": dtype, "of": tokens, "smallest gap": gap}
        made, logits = {}, {}
        for implementation in ("sdpa", "exported"):
            model.set_attn_implementation(implementation)
            made[implementation] = _greedy(model, prompts, tokens)[0]
            logits[implementation] = _logits(model, prompts, made["sdpa"])
        right = _logits(exact, prompts, made["sdpa"])
        off = {name: float((given - right).abs().max() / right.std()) for name, given in logits.items()}
        row |= {
            "logits off": off,
            "equal tokens": _equal(made["exported"], made["sdpa"]),
            "calls": both.calls,
        }
        row["apart"] = float((logits["exported"] - logits["sdpa"]).abs().max() / right.std())
        if row["equal tokens"] != tokens:
            found["bad"].append(f"{dtype}: {row['equal tokens']} of {tokens} tokens are equal")
        if off["exported"] > 1.5 * off["sdpa"] + 1e-3:
            found["bad"].append(f"{dtype}: the logits are worse than with PyTorch's attention")
        if not cases.rehearse:
            row["layer_us"] = _layers(cases, model, both)
        found["rows"].append(row)
        print(row, flush=True)
    return found


def _model(cases):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HEADS * HEAD_DIM,
        intermediate_size=2048,
        num_hidden_layers=2 if cases.rehearse else 4,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        initializer_range=0.04,
        max_position_embeddings=8192,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    model.set_attn_implementation("sdpa")
    return model


def _equal(a, b):
    """How many tokens agree from the beginning, in every sequence."""
    return int((a == b).all(dim=0).long().cumprod(dim=0).sum())


def _clear_prompts(cases, model, tokens):
    """The prompts with the clearest choices, and the smallest gap among them."""
    drawn = 16 if cases.rehearse else DRAWN
    generator = torch.Generator().manual_seed(7)
    prompts = torch.randint(0, VOCABULARY, (drawn, PROMPT), generator=generator).to(cases.device)
    gaps = torch.cat([_greedy(model, part, tokens)[1] for part in prompts.split(1024)])
    chosen = gaps.topk(KEPT)
    return prompts[chosen.indices], float(chosen.values.min())


@torch.no_grad()
def _greedy(model, prompt, tokens):
    """The tokens, and for each sequence the smallest difference between the two largest logits on the way, in
    their standard deviations.
    """
    given, cache, made = prompt, None, []
    gaps = torch.full((len(prompt),), float("inf"), device=prompt.device)
    for _ in range(tokens):
        answer = model(given, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, logits = answer.past_key_values, answer.logits[:, -1].float()
        best = logits.topk(2, dim=-1).values
        gaps = torch.minimum(gaps, (best[:, 0] - best[:, 1]) / logits.std(dim=-1))
        given = logits.argmax(dim=-1, keepdim=True)
        made.append(given)
    return torch.cat(made, dim=1), gaps


@torch.no_grad()
def _logits(model, prompts, tokens):
    """Of every token, given those before it, step by step through the cache."""
    cache, given, found = None, prompts, []
    for at in range(tokens.shape[1]):
        answer = model(given, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, given = answer.past_key_values, tokens[:, at : at + 1]
        found.append(answer.logits[:, -1].float())
    return torch.stack(found)


@torch.no_grad()
def _layers(cases, model, both):
    """Microseconds of a decoder layer on a prompt of 4096 tokens, and of its attention alone, in turns."""
    layer, rows = model.model.layers[0], 4096
    hidden = torch.randn(1, rows, model.config.hidden_size, device="cuda", dtype=model.dtype)
    places = torch.arange(rows, device="cuda")[None]
    turns = model.model.rotary_emb(hidden, places)
    shapes = ((HEADS, rows), (KV_HEADS, rows), (KV_HEADS, rows))
    q, k, v = (
        torch.randn(1, n, h, HEAD_DIM, device="cuda", dtype=model.dtype).transpose(1, 2) for h, n in shapes
    )

    def layer_with(implementation):
        model.set_attn_implementation(implementation)
        return lambda: layer(hidden, position_embeddings=turns, attention_mask=None, position_ids=places)

    def sdpa():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    ways = {
        "layer, sdpa": lambda: layer_with("sdpa"),
        "layer, exported": lambda: layer_with("exported"),
        "attention, sdpa": lambda: sdpa,
        "attention, exported": lambda: lambda: both(q, k, v, causal=True),
    }
    times = {name: [] for name in ways}
    for _ in range(11):
        for name, prepare in ways.items():
            call = prepare()
            for _ in range(3):
                call()
            cases.synchronize()
            started = time.perf_counter()
            for _ in range(20):
                call()
            cases.synchronize()
            times[name].append((time.perf_counter() - started) / 20 * 1e6)
    return {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}
