//! A model file in the format of llama.cpp: one layer, random weights from a fixed seed, and a token for
//! each byte. It says letters, digits and marks without sense, and that is what a test of a server needs.

/// Length of a vector, of the inner layer, and the number of heads.
const WIDTH: usize = 32;
const INNER: usize = 64;
const HEADS: u32 = 2;
/// The context that the file claims to be trained for.
const TRAINED: u32 = 65_536;
/// Where tensors begin.
const ALIGNMENT: usize = 32;

/// Types of values in the header.
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const TEXT: u32 = 8;
const LIST: u32 = 9;
/// Kinds of tokens: plain text, unknown, control, one byte.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// Bytes of the file.
pub fn random_model(seed: u64) -> Vec<u8> {
    let mut tokens: Vec<(String, i32)> =
        vec![("<unk>".into(), UNKNOWN), ("<s>".into(), CONTROL), ("</s>".into(), CONTROL)];
    tokens.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), BYTE)));
    tokens.push(("\u{2581}".into(), NORMAL));
    let head = header(&tokens);
    let mut random = Random(seed);
    let tensors = tensors(&mut random, &tokens);
    let mut infos = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, sizes, values) in &tensors {
        put_text(&mut infos, name);
        infos.extend((sizes.len() as u32).to_le_bytes());
        sizes.iter().for_each(|size| infos.extend((*size as u64).to_le_bytes()));
        // Plain 32-bit numbers, and where they begin.
        infos.extend(0_u32.to_le_bytes());
        infos.extend((data.len() as u64).to_le_bytes());
        values.iter().for_each(|value| data.extend(value.to_le_bytes()));
        pad(&mut data);
    }
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((head.len() as u64).to_le_bytes());
    file.extend(head.concat());
    file.extend(infos);
    pad(&mut file);
    file.extend(data);
    file
}

fn header(tokens: &[(String, i32)]) -> Vec<Vec<u8>> {
    let entry = |key: &str, kind: u32, value: Vec<u8>| {
        let mut bytes = Vec::new();
        put_text(&mut bytes, key);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        bytes
    };
    let text = |key: &str, value: &str| {
        let mut bytes = Vec::new();
        put_text(&mut bytes, value);
        entry(key, TEXT, bytes)
    };
    let number = |key: &str, value: u32| entry(key, U32, value.to_le_bytes().to_vec());
    let list = |key: &str, kind: u32, items: Vec<Vec<u8>>| {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((items.len() as u64).to_le_bytes());
        bytes.extend(items.concat());
        entry(key, LIST, bytes)
    };
    let names = tokens.iter().map(|(name, _)| {
        let mut bytes = Vec::new();
        put_text(&mut bytes, name);
        bytes
    });
    let kinds = tokens.iter().map(|(_, kind)| kind.to_le_bytes().to_vec());
    let scores = tokens.iter().map(|_| 0.0_f32.to_le_bytes().to_vec());
    vec![
        text("general.architecture", "llama"),
        text("general.name", "random"),
        number("llama.context_length", TRAINED),
        number("llama.embedding_length", WIDTH as u32),
        number("llama.block_count", 1),
        number("llama.feed_forward_length", INNER as u32),
        number("llama.attention.head_count", HEADS),
        number("llama.attention.head_count_kv", HEADS),
        number("llama.rope.dimension_count", WIDTH as u32 / HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5_f32.to_le_bytes().to_vec()),
        text("tokenizer.ggml.model", "llama"),
        list("tokenizer.ggml.tokens", TEXT, names.collect()),
        list("tokenizer.ggml.scores", F32, scores.collect()),
        list("tokenizer.ggml.token_type", I32, kinds.collect()),
        number("tokenizer.ggml.unknown_token_id", 0),
        number("tokenizer.ggml.bos_token_id", 1),
        number("tokenizer.ggml.eos_token_id", 2),
    ]
}

type Tensor = (&'static str, Vec<usize>, Vec<f32>);

/// The first number of every vector stays a positive one, so that the first weight of a token says how
/// often the model says it: bytes that are no printable ASCII never, the end of a text seldom.
fn tensors(random: &mut Random, tokens: &[(String, i32)]) -> Vec<Tensor> {
    let count = tokens.len();
    let mut embedded = random.numbers(WIDTH * count);
    embedded.chunks_mut(WIDTH).for_each(|vector| vector[0] = 2.0);
    let mut output = random.numbers(WIDTH * count);
    for (token, vector) in output.chunks_mut(WIDTH).enumerate() {
        let byte = token.checked_sub(3);
        let is_said = byte.is_some_and(|byte| (0x20..0x7F).contains(&byte));
        vector[0] = if is_said { 0.0 } else { -9.0 };
    }
    // A layer adds to its input: a row of zeros leaves the first number alone.
    let silent = |mut weights: Vec<f32>, width: usize| {
        weights[..width].fill(0.0);
        weights
    };
    let square = vec![WIDTH, WIDTH];
    vec![
        ("token_embd.weight", vec![WIDTH, count], embedded),
        ("output_norm.weight", vec![WIDTH], vec![1.0; WIDTH]),
        ("output.weight", vec![WIDTH, count], output),
        ("blk.0.attn_norm.weight", vec![WIDTH], vec![1.0; WIDTH]),
        ("blk.0.attn_q.weight", square.clone(), random.numbers(WIDTH * WIDTH)),
        ("blk.0.attn_k.weight", square.clone(), random.numbers(WIDTH * WIDTH)),
        ("blk.0.attn_v.weight", square.clone(), random.numbers(WIDTH * WIDTH)),
        ("blk.0.attn_output.weight", square, silent(random.numbers(WIDTH * WIDTH), WIDTH)),
        ("blk.0.ffn_norm.weight", vec![WIDTH], vec![1.0; WIDTH]),
        ("blk.0.ffn_gate.weight", vec![WIDTH, INNER], random.numbers(WIDTH * INNER)),
        ("blk.0.ffn_up.weight", vec![WIDTH, INNER], random.numbers(WIDTH * INNER)),
        ("blk.0.ffn_down.weight", vec![INNER, WIDTH], silent(random.numbers(INNER * WIDTH), INNER)),
    ]
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

/// Splitmix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }

    /// Between -0.5 and 0.5.
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    }
}
