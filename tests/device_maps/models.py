# SPDX-License-Identifier: Apache-2.0
"""
The public models whose maps are recorded: name, class of transformers, dtype, and what its config.json has beside the
defaults of its class (from the models' cards on the Hugging Face Hub and their papers). A dict in a config is a config of a
part.
"""

CAUSAL = "AutoModelForCausalLM"
MASKED = "AutoModelForMaskedLM"
SEQ2SEQ = "AutoModelForSeq2SeqLM"

# name, model_type, auto class, dtype, config
MODELS = [
    ("llama-7b", "llama", CAUSAL, "float16", {}),
    ("llama-2-13b", "llama", CAUSAL, "float16", {
        "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40,
        "num_key_value_heads": 40, "max_position_embeddings": 4096}),
    ("llama-2-70b", "llama", CAUSAL, "float16", {
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "max_position_embeddings": 4096}),
    ("llama-3-8b", "llama", CAUSAL, "bfloat16", {
        "vocab_size": 128256, "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 8192}),
    ("llama-3.2-1b", "llama", CAUSAL, "bfloat16", {
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True}),
    ("mistral-7b", "mistral", CAUSAL, "bfloat16", {}),
    ("mixtral-8x7b", "mixtral", CAUSAL, "bfloat16", {}),
    ("qwen2-7b", "qwen2", CAUSAL, "bfloat16", {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4}),
    ("qwen2.5-0.5b", "qwen2", CAUSAL, "bfloat16", {
        "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    ("qwen1.5-moe-a2.7b", "qwen2_moe", CAUSAL, "bfloat16", {}),
    ("qwen3-8b", "qwen3", CAUSAL, "bfloat16", {
        "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_key_value_heads": 8}),
    ("qwen3-0.6b", "qwen3", CAUSAL, "bfloat16", {
        "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "tie_word_embeddings": True}),
    ("qwen3-30b-a3b", "qwen3_moe", CAUSAL, "bfloat16", {
        "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128}),
    ("gemma-2b", "gemma", CAUSAL, "bfloat16", {
        "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8,
        "num_key_value_heads": 1}),
    ("gemma-2-9b", "gemma2", CAUSAL, "bfloat16", {
        "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
        "num_key_value_heads": 8}),
    ("gemma-3-1b", "gemma3_text", CAUSAL, "bfloat16", {
        "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1}),
    ("phi-2", "phi", CAUSAL, "float16", {
        "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32}),
    ("phi-3-mini", "phi3", CAUSAL, "bfloat16", {}),
    ("phi-3.5-moe", "phimoe", CAUSAL, "bfloat16", {}),
    ("gpt2", "gpt2", CAUSAL, "float32", {}),
    ("gpt2-xl", "gpt2", CAUSAL, "float16", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    ("gpt-neo-125m", "gpt_neo", CAUSAL, "float32", {
        "hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_types": [[["global", "local"], 6]]}),
    ("gpt-neo-1.3b", "gpt_neo", CAUSAL, "float16", {}),
    ("gpt-neox-20b", "gpt_neox", CAUSAL, "float16", {}),
    ("pythia-1.4b", "gpt_neox", CAUSAL, "float16", {
        "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
        "num_attention_heads": 16}),
    ("gpt-j-6b", "gptj", CAUSAL, "float16", {}),
    ("codegen-16b", "codegen", CAUSAL, "float16", {
        "n_embd": 6144, "n_layer": 34, "n_head": 24, "rotary_dim": 64, "vocab_size": 51200}),
    ("opt-125m", "opt", CAUSAL, "float16", {}),
    ("opt-350m", "opt", CAUSAL, "float16", {
        "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "word_embed_proj_dim": 512, "do_layer_norm_before": False}),
    ("opt-13b", "opt", CAUSAL, "float16", {
        "hidden_size": 5120, "ffn_dim": 20480, "num_hidden_layers": 40, "num_attention_heads": 40,
        "word_embed_proj_dim": 5120}),
    ("bloom-560m", "bloom", CAUSAL, "float16", {
        "vocab_size": 250880, "hidden_size": 1024, "n_layer": 24, "n_head": 16}),
    ("bloom-176b", "bloom", CAUSAL, "bfloat16", {
        "vocab_size": 250880, "hidden_size": 14336, "n_layer": 70, "n_head": 112}),
    ("falcon-7b", "falcon", CAUSAL, "bfloat16", {}),
    ("falcon-40b", "falcon", CAUSAL, "bfloat16", {
        "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
        "new_decoder_architecture": True}),
    ("mpt-7b", "mpt", CAUSAL, "bfloat16", {"d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432}),
    ("stablelm-3b", "stablelm", CAUSAL, "bfloat16", {}),
    ("starcoder-15b", "gpt_bigcode", CAUSAL, "float16", {
        "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152}),
    ("starcoder2-3b", "starcoder2", CAUSAL, "bfloat16", {}),
    ("olmo-7b", "olmo", CAUSAL, "float32", {}),
    ("olmo2-7b", "olmo2", CAUSAL, "float32", {"vocab_size": 100352}),
    ("olmoe-1b-7b", "olmoe", CAUSAL, "bfloat16", {"intermediate_size": 1024}),
    ("command-r-35b", "cohere", CAUSAL, "float16", {}),
    ("command-r7b", "cohere2", CAUSAL, "bfloat16", {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8}),
    ("granite-8b", "granite", CAUSAL, "bfloat16", {
        "vocab_size": 49159, "hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True}),
    ("glm-4-9b", "glm", CAUSAL, "bfloat16", {}),
    ("deepseek-v2-lite", "deepseek_v2", CAUSAL, "bfloat16", {
        "vocab_size": 102400, "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "n_shared_experts": 2,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "q_lora_rank": None, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "first_k_dense_replace": 1}),
    ("deepseek-v3", "deepseek_v3", CAUSAL, "bfloat16", {}),
    ("gpt-oss-20b", "gpt_oss", CAUSAL, "bfloat16", {"num_hidden_layers": 24, "num_local_experts": 32}),
    ("smollm3-3b", "smollm3", CAUSAL, "bfloat16", {}),
    ("nemotron-4-340b", "nemotron", CAUSAL, "bfloat16", {
        "vocab_size": 256000, "hidden_size": 18432, "intermediate_size": 73728, "num_hidden_layers": 96,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 192}),
    ("persimmon-8b", "persimmon", CAUSAL, "bfloat16", {}),
    ("xglm-564m", "xglm", CAUSAL, "float16", {"d_model": 1024, "ffn_dim": 4096, "num_layers": 24, "attention_heads": 16}),
    ("biogpt", "biogpt", CAUSAL, "float16", {}),
    ("mamba-2.8b", "mamba", CAUSAL, "float16", {
        "vocab_size": 50280, "hidden_size": 2560, "num_hidden_layers": 64, "intermediate_size": 5120, "time_step_rank": 160}),
    ("mamba2-2.7b", "mamba2", CAUSAL, "float16", {
        "vocab_size": 50288, "hidden_size": 2560, "num_hidden_layers": 64, "num_heads": 80, "head_dim": 64, "n_groups": 1}),
    ("jamba-52b", "jamba", CAUSAL, "bfloat16", {}),
    ("rwkv-3b", "rwkv", CAUSAL, "float16", {"hidden_size": 2560, "num_hidden_layers": 32}),
    ("t5-small", "t5", SEQ2SEQ, "float32", {}),
    ("t5-11b", "t5", SEQ2SEQ, "float16", {
        "d_model": 1024, "d_ff": 65536, "d_kv": 128, "num_heads": 128, "num_layers": 24}),
    ("flan-t5-xl", "t5", SEQ2SEQ, "bfloat16", {
        "d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32, "num_layers": 24, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False}),
    ("mt5-xl", "mt5", SEQ2SEQ, "bfloat16", {
        "d_model": 2048, "d_ff": 5120, "num_heads": 32, "num_layers": 24, "vocab_size": 250112}),
    ("bart-large", "bart", SEQ2SEQ, "float32", {}),
    ("mbart-large", "mbart", SEQ2SEQ, "float16", {"vocab_size": 250027}),
    ("pegasus-large", "pegasus", SEQ2SEQ, "float16", {
        "vocab_size": 96103, "encoder_layers": 16, "decoder_layers": 16}),
    ("marian-en-de", "marian", SEQ2SEQ, "float32", {
        "vocab_size": 58101, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "pad_token_id": 58100}),
    ("nllb-200-3.3b", "m2m_100", SEQ2SEQ, "float16", {
        "vocab_size": 256206, "d_model": 2048, "encoder_layers": 24, "decoder_layers": 24, "encoder_ffn_dim": 8192,
        "decoder_ffn_dim": 8192}),
    ("bert-base", "bert", MASKED, "float32", {}),
    ("roberta-large", "roberta", MASKED, "float32", {
        "vocab_size": 50265, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "max_position_embeddings": 514, "type_vocab_size": 1}),
    ("xlm-roberta-base", "xlm-roberta", MASKED, "float32", {
        "vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1}),
    ("deberta-v2-xxlarge", "deberta-v2", MASKED, "float16", {
        "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 48, "num_attention_heads": 24,
        "intermediate_size": 6144, "relative_attention": True, "position_buckets": 256, "conv_kernel_size": 3,
        "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True}),
    ("electra-small", "electra", MASKED, "float32", {}),
    ("distilbert", "distilbert", MASKED, "float32", {}),
    ("albert-xxlarge", "albert", MASKED, "float32", {}),
    ("modernbert-base", "modernbert", MASKED, "float32", {}),
    ("vit-large", "vit", "AutoModelForImageClassification", "float32", {
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}),
    ("clip-vit-base", "clip", "AutoModel", "float32", {}),
    ("whisper-large-v3", "whisper", "AutoModelForSpeechSeq2Seq", "float16", {
        "vocab_size": 51866, "num_mel_bins": 128, "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
        "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120}),
    ("wav2vec2-base", "wav2vec2", "AutoModelForCTC", "float32", {}),
    ("llava-1.5-7b", "llava", "AutoModelForImageTextToText", "float16", {"text_config": {"vocab_size": 32064}}),
    ("qwen2-vl-7b", "qwen2_vl", "AutoModelForImageTextToText", "bfloat16", {"text_config": {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4}}),
    ("blip2-opt-2.7b", "blip-2", "AutoModelForImageTextToText", "float16", {}),
]
