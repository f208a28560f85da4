"""Attention in a graph: torch's multi-head attention without a dimension made of the batch and the heads.

Where the size of the batch is open, Inductor cannot split such a dimension again, and divides for each element.
"""

import torch.nn.functional as F


def attention(original, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
              dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
              use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
              average_attn_weights=True, is_causal=False):
    """As torch's function, `original`, which gets what is not usual in training."""
    rare = (bias_k, bias_v, static_k, static_v, add_zero_attn or None, need_weights or None, use_separate_proj_weight or None)
    if any(each is not None for each in rare) or query.dim() != 3 or attn_mask is not None and attn_mask.dim() != 2:
        return original(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
                        dropout_p, out_proj_weight, out_proj_bias, training, key_padding_mask, need_weights, attn_mask,
                        use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v,
                        average_attn_weights, is_causal)
    key_padding_mask = F._canonical_mask(key_padding_mask, "key_padding_mask", F._none_or_dtype(attn_mask), "attn_mask", query.dtype)
    if is_causal and key_padding_mask is None:
        attn_mask = None
    else:
        is_causal = False
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    if key_padding_mask is not None:
        padding = key_padding_mask[:, None, None, :]
        attn_mask = padding if attn_mask is None else attn_mask + padding
    width = query.shape[2]
    if query is key and key is value:
        projected = F.linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)
    else:
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        projected = [F.linear(*each) for each in zip((query, key, value), in_proj_weight.chunk(3), biases)]
    heads = [each.unflatten(2, (num_heads, width // num_heads)).permute(1, 2, 0, 3) for each in projected]
    mixed = F.scaled_dot_product_attention(*heads, attn_mask, dropout_p if training else 0.0, is_causal)
    return F.linear(mixed.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias), None
