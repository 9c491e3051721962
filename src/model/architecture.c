/* SPDX-License-Identifier: Apache-2.0 */
#include "model/architecture.h"

/* clang-format off */
static const struct architecture rows[] = {
    {"LlamaForCausalLM MistralForCausalLM MixtralForCausalLM "
     "Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM Phi3ForCausalLM "
     "PhimoeForCausalLM Starcoder2ForCausalLM CohereForCausalLM Cohere2ForCausalLM "
     "Olmo2ForCausalLM OlmoForCausalLM OlmoeForCausalLM GraniteForCausalLM GraniteMoeForCausalLM "
     "GptOssForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM Llama4ForCausalLM SmolLM3ForCausalLM "
     "Exaone4ForCausalLM Ernie4_5ForCausalLM Ernie4_5_MoeForCausalLM MiniMaxForCausalLM HeliumForCausalLM "
     "ArceeForCausalLM JetMoeForCausalLM BitNetForCausalLM ApertusForCausalLM "
     "SeedOssForCausalLM DiffLlamaForCausalLM",
     "model", NULL,
     "model.embed_tokens model.layers.*! model.norm- model.rotary_emb{rope} lm_head=model.embed_tokens"},
    {"GlmForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM NemotronForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.norm model.rotary_emb{rope:0.5} lm_head=model.embed_tokens"},
    {"StableLmForCausalLM Qwen3NextForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.norm model.rotary_emb{rope:0.25} lm_head=model.embed_tokens"},
    {"GemmaForCausalLM Gemma2ForCausalLM", "model", NULL,
     "model.embed_tokens{scale} model.layers.*! model.norm model.rotary_emb{rope} lm_head=model.embed_tokens"},
    {"Gemma3ForCausalLM", "model", NULL,
     "model.embed_tokens{scale} model.layers.*! model.norm model.rotary_emb{rope_layers} "
     "lm_head=model.embed_tokens"},
    {"Olmo3ForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.norm model.rotary_emb{rope_layers} lm_head=model.embed_tokens"},
    {"PersimmonForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.final_layernorm model.rotary_emb{rope:0.5} "
     "lm_head=model.embed_tokens"},
    {"PhiForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.rotary_emb{rope:0.5} model.embed_dropout- "
     "model.final_layernorm lm_head=model.embed_tokens"},
    {"Lfm2ForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.rotary_emb{rope} model.embedding_norm "
     "lm_head=model.embed_tokens"},
    {"BambaForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.final_layernorm model.rotary_emb{rope:0.5} "
     "lm_head=model.embed_tokens"},
    {"JambaForCausalLM", "model", NULL,
     "model.embed_tokens model.layers.*! model.final_layernorm lm_head=model.embed_tokens"},
    {"GPT2LMHeadModel", "transformer", NULL,
     "transformer.wte transformer.wpe transformer.drop- transformer.h.*! transformer.ln_f "
     "lm_head=transformer.wte"},
    {"GPTNeoForCausalLM", "transformer", NULL,
     "transformer.wte transformer.wpe transformer.drop- transformer.h.*!{neo} transformer.ln_f "
     "lm_head=transformer.wte"},
    {"GPTBigCodeForCausalLM", "transformer", NULL,
     "transformer{bigcode} transformer.wte transformer.wpe transformer.drop- transformer.h.*! "
     "transformer.ln_f lm_head=transformer.wte"},
    {"GPTJForCausalLM CodeGenForCausalLM", "transformer", NULL,
     "transformer.wte transformer.drop- transformer.h.*! transformer.ln_f transformer.rotary_emb{gptj} "
     "lm_head=transformer.wte"},
    {"GPTNeoXForCausalLM", "gpt_neox", "embed_out.=lm_head.",
     "gpt_neox.embed_in gpt_neox.emb_dropout- gpt_neox.layers.*! gpt_neox.final_layer_norm "
     "gpt_neox.rotary_emb{rope:0.25} lm_head=gpt_neox.embed_in"},
    {"GPTNeoXJapaneseForCausalLM", "gpt_neox_japanese", NULL,
     "gpt_neox_japanese.embed_in gpt_neox_japanese.layers.*! gpt_neox_japanese.final_layer_norm "
     "gpt_neox_japanese.rotary_emb{rope} embed_out=gpt_neox_japanese.embed_in"},
    {"OPTForCausalLM", "model", "decoder.=model.decoder.",
     "model.decoder.embed_tokens model.decoder.embed_positions model.decoder.project_out "
     "model.decoder.project_in model.decoder.final_layer_norm model.decoder.layers.*! "
     "lm_head=model.decoder.embed_tokens"},
    {"BloomForCausalLM", "transformer", NULL,
     "transformer.word_embeddings transformer.word_embeddings_layernorm transformer.h.*! transformer.ln_f "
     "lm_head=transformer.word_embeddings"},
    {"FalconForCausalLM", "transformer", NULL,
     "transformer.word_embeddings transformer.h.*! transformer.ln_f transformer.rotary_emb{rope} "
     "lm_head=transformer.word_embeddings"},
    {"MptForCausalLM", "transformer", NULL,
     "transformer.wte transformer.blocks.*! transformer.norm_f lm_head=transformer.wte"},
    {"XGLMForCausalLM", "model", NULL,
     "model.embed_tokens model.embed_positions{sinusoid} model.layers.*! model.layer_norm "
     "lm_head=model.embed_tokens"},
    {"MambaForCausalLM Mamba2ForCausalLM", "backbone", NULL,
     "backbone.embeddings backbone.layers.*# backbone.norm_f lm_head=backbone.embeddings"},
    {"T5ForConditionalGeneration MT5ForConditionalGeneration UMT5ForConditionalGeneration", NULL, NULL,
     "shared encoder.embed_tokens=shared encoder.block.*#1 encoder.final_layer_norm encoder.dropout- "
     "decoder.embed_tokens=shared decoder.block.*!1 decoder.final_layer_norm decoder.dropout- lm_head=shared"},
    {"BartForConditionalGeneration MBartForConditionalGeneration", "model", NULL,
     "model.shared model.encoder.embed_tokens=model.shared model.encoder.embed_positions "
     "model.encoder.layers.*# model.encoder.layernorm_embedding model.encoder.layer_norm "
     "model.decoder.embed_tokens=model.shared model.decoder.embed_positions model.decoder.layers.*! "
     "model.decoder.layernorm_embedding model.decoder.layer_norm lm_head=model.shared"},
    {"M2M100ForConditionalGeneration", "model", NULL,
     "model.shared model.encoder.embed_tokens=model.shared model.encoder.embed_positions{sinusoid} "
     "model.encoder.layers.*# model.encoder.layer_norm "
     "model.decoder.embed_tokens=model.shared model.decoder.embed_positions{sinusoid} "
     "model.decoder.layers.*! model.decoder.layer_norm lm_head=model.shared"},
    {"WhisperForConditionalGeneration", "model", NULL,
     "model.encoder.conv1 model.encoder.conv2 model.encoder.embed_positions model.encoder.layers.*# "
     "model.encoder.layer_norm model.decoder.embed_tokens model.decoder.embed_positions "
     "model.decoder.layers.*! model.decoder.layer_norm proj_out=model.decoder.embed_tokens"},
    {"BertForMaskedLM", "bert", NULL,
     "bert.embeddings#{ids2} bert.encoder.layer.*# cls.predictions.transform.dense "
     "cls.predictions.transform.transform_act_fn- cls.predictions.transform.LayerNorm "
     "cls.predictions.decoder=bert.embeddings.word_embeddings"},
    {"RobertaForMaskedLM XLMRobertaForMaskedLM", "roberta", NULL,
     "roberta.embeddings#{ids2} roberta.encoder.layer.*# lm_head.dense lm_head.layer_norm "
     "lm_head.decoder=roberta.embeddings.word_embeddings"},
    {"ModernBertForMaskedLM", "model", NULL,
     "model.embeddings# model.layers.*# model.final_norm model.rotary_emb{rope_layers} head.dense head.act- "
     "head.norm decoder=model.embeddings.tok_embeddings"},
    {"RwkvForCausalLM", "rwkv", NULL,
     "rwkv.embeddings rwkv.blocks.*# rwkv.ln_out head=rwkv.embeddings"},
    {"LlavaForConditionalGeneration", NULL,
     "language_model.model.=model.language_model. language_model.lm_head.=lm_head. "
     "vision_tower.vision_model.=model.vision_tower. multi_modal_projector.=model.multi_modal_projector.",
     "model.vision_tower.embeddings#{patches} model.vision_tower.pre_layrnorm model.vision_tower.encoder.layers.*# "
     "model.vision_tower.post_layernorm model.multi_modal_projector.linear_1 model.multi_modal_projector.act- "
     "model.multi_modal_projector.linear_2 model.language_model.embed_tokens model.language_model.layers.*! "
     "model.language_model.norm model.language_model.rotary_emb{rope} lm_head=model.language_model.embed_tokens"},
    {"Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration", NULL,
     "visual.=model.visual. model.layers.=model.language_model.layers. "
     "model.embed_tokens.=model.language_model.embed_tokens. model.norm.=model.language_model.norm.",
     "model.visual.patch_embed.proj model.visual.rotary_pos_emb{vision_rope} model.visual.blocks.*# "
     "model.visual.merger.ln_q model.visual.merger.mlp.0 model.visual.merger.mlp.1- model.visual.merger.mlp.2 "
     "model.language_model.embed_tokens model.language_model.layers.*! model.language_model.norm "
     "model.language_model.rotary_emb{rope} lm_head=model.language_model.embed_tokens"},
    {"ViTForImageClassification", "vit", NULL,
     "vit.embeddings# vit.layers.*# vit.layernorm classifier"},
};

static const struct architecture gguf = {
    "", NULL, NULL,
    "token_embd token_types position_embd token_embd_norm rope_freqs enc.blk.*# enc.output_norm "
    "blk.*! output_norm output=token_embd"};
/* clang-format on */

static bool has_word(const char *words, struct str word)
{
    struct str rest = str_of(words), one;
    while (str_next(&rest, ' ', &one))
        if (str_equal(one, word))
            return true;
    return false;
}

const struct architecture *architecture_find(struct str class_name)
{
    for (size_t i = 0; class_name.len > 0 && i < countof(rows); i++)
        if (has_word(rows[i].classes, class_name))
            return &rows[i];
    return NULL;
}

bool architecture_keeps_cache(struct str class_name)
{
    const struct architecture *of = architecture_find(class_name);
    return !of || strchr(of->layout, '!') != NULL;
}

const struct architecture *architecture_gguf(void)
{
    return &gguf;
}

const struct architecture *architecture_row(size_t i)
{
    return i < countof(rows) ? &rows[i] : NULL;
}

/* ---- layouts ---- */

static size_t path_len(struct str word)
{
    static const char ends[] = {'!', '#', '-', '=', '{'};
    size_t len = 0;
    while (len < word.len && !memchr(ends, word.at[len], sizeof(ends)))
        len++;
    return len;
}

static struct str rest_of(struct str s, size_t skip)
{
    return (struct str){s.at + skip, s.len - skip};
}

static bool mark_take(struct str *word, char mark)
{
    bool is_there = word->len > 0 && word->at[0] == mark;
    *word = rest_of(*word, is_there);
    return is_there;
}

static bool module_parse(struct str word, struct layout_module *out)
{
    *out = (struct layout_module){.path = {word.at, path_len(word)}};
    word = rest_of(word, out->path.len);
    out->has_cache = mark_take(&word, '!');
    out->is_whole = out->has_cache || mark_take(&word, '#');
    if (out->is_whole && word.len > 0 && word.at[0] >= '1' && word.at[0] <= '9') {
        out->class_digit = (unsigned)(word.at[0] - '0');
        word = rest_of(word, 1);
    }
    out->is_always = mark_take(&word, '-');
    if (mark_take(&word, '=')) {
        out->tied_to = (struct str){word.at, path_len(word)};
        word = rest_of(word, out->tied_to.len);
    }
    if (mark_take(&word, '{') && word.len > 0 && word.at[word.len - 1] == '}') {
        out->buffers = (struct str){word.at, word.len - 1};
        word.len = 0;
    }
    return out->path.len > 0 && word.len == 0;
}

bool layout_next(struct str *rest, struct layout_module *out, struct err *err)
{
    struct str word = {"", 0};
    while (word.len == 0)
        if (!str_next(rest, ' ', &word))
            return false;
    if (module_parse(word, out))
        return true;
    fail(err, ERR_USAGE, "'%.*s' is no module of a layout", (int)MIN(word.len, (size_t)80),
         word.at);
    return false;
}
