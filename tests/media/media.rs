#![allow(clippy::unwrap_used)]
//! Promises of `tokenctx::media`, on the cases that the Python tests read too.

use serde_json::Value;
use tokenctx::media::{
    Detail, HEAD_BYTES, IMAGE_RULES_JSON, ImageFormat, ImageRule, PixelSize, RuleError,
    base64_decoded_len, base64_image_size, decode_base64_chunks, decode_base64_head, image_size,
    parse_data_url,
};

fn rules() -> Vec<(String, ImageRule)> {
    let table: Value = serde_json::from_str(IMAGE_RULES_JSON).unwrap();
    table["rules"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, entry)| (name.clone(), rule(entry).unwrap()))
        .collect()
}

fn rule(entry: &Value) -> Result<ImageRule, RuleError> {
    ImageRule::from_fields(entry["kind"].as_str().unwrap(), |path| {
        path.split('.')
            .try_fold(entry, |value, name| value.get(name))?
            .as_u64()
    })
}

fn cases(text: &str, list: &str) -> Vec<Value> {
    let mut file: Value = serde_json::from_str(text).unwrap();
    serde_json::from_value(file[list].take()).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// A small fixed generator (xorshift), so that every run tests the same bytes.
struct Random(u64);

impl Random {
    fn u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.u64() % limit as u64).unwrap()
    }

    fn side_px(&mut self) -> u32 {
        let [a, b, c, d, shift, ..] = self.u64().to_le_bytes();
        (u32::from_le_bytes([a, b, c, d]) >> (shift % 32)).max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.u64().to_le_bytes()[3]).collect()
    }
}

#[test]
fn every_vector_is_exact() {
    let rules = rules();
    for case in cases(include_str!("../data/images/vectors.json"), "vectors") {
        let (_, rule) = rules
            .iter()
            .find(|(name, _)| case["rule"] == name.as_str())
            .unwrap();
        let side = |name: &str| u32::try_from(case[name].as_u64().unwrap()).unwrap();
        let size = PixelSize::new(side("width_px"), side("height_px")).unwrap();
        let detail = Detail::from_name(case["detail"].as_str().unwrap()).unwrap();
        assert_eq!(
            rule.tokens(size, detail),
            case["tokens"].as_u64().unwrap(),
            "{case}"
        );
    }
}

#[test]
fn no_size_panics_and_no_price_is_absurd() {
    // The dearest: 30,000 patches x 2.46, or 24 tiles of gpt-4o-mini.
    const MOST_TOKENS: u64 = 200_000;
    let mut random = Random(1);
    let edges = [
        1,
        2,
        27,
        28,
        29,
        511,
        512,
        513,
        65_535,
        65_536,
        u32::MAX - 1,
        u32::MAX,
    ];
    let corners = edges
        .iter()
        .flat_map(|&w| edges.iter().map(move |&h| (w, h)));
    let sizes: Vec<_> = corners
        .chain((0..2_000).map(|_| (random.side_px(), random.side_px())))
        .collect();
    for (name, rule) in rules() {
        for &(width_px, height_px) in &sizes {
            let size = PixelSize::new(width_px, height_px).unwrap();
            for detail in Detail::ALL {
                let tokens = rule.tokens(size, detail);
                assert!(
                    (1..=MOST_TOKENS).contains(&tokens),
                    "{name} {size:?}: {tokens}"
                );
            }
        }
    }
}

#[test]
fn a_faulty_rule_names_its_fault() {
    let missing = ImageRule::from_fields("quadrants", |_| None);
    assert_eq!(missing, Err(RuleError::MissingField("tile_px".to_owned())));
    let zero = ImageRule::from_fields("quadrants", |_| Some(0)).unwrap_err();
    assert_eq!(
        zero.to_string(),
        "tile_px of the image rule is 0; it must be 1 to 65535"
    );
    let huge = ImageRule::from_fields("flat", |_| Some(65_536)).unwrap_err();
    assert!(matches!(huge, RuleError::OutOfRange { value: 65_536, .. }));
    assert!(matches!(
        ImageRule::from_fields("", |_| None),
        Err(RuleError::UnknownKind(_))
    ));
}

// ----------------------------------------------------------------------------- headers

fn png(width_px: u32, height_px: u32) -> Vec<u8> {
    let sides = [width_px.to_be_bytes(), height_px.to_be_bytes()].concat();
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
        &sides,
        &[8, 6, 0, 0, 0],
    ]
    .concat()
}

fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
    [&[0xFF, marker], length.as_slice(), body].concat()
}

fn jpeg(frame: u8, width_px: u16, height_px: u16, exif_bytes: usize) -> Vec<u8> {
    let [height, width] = [height_px.to_be_bytes(), width_px.to_be_bytes()];
    let sides = [[8].as_slice(), &height, &width, &[3]].concat();
    let exif = segment(0xE1, &vec![0xFF; exif_bytes]);
    [
        vec![0xFF, 0xD8],
        exif,
        segment(0xC4, &[0; 20]),
        segment(frame, &sides),
    ]
    .concat()
}

fn bmp(width_px: i32, height_px: i32) -> Vec<u8> {
    let sides = [width_px.to_le_bytes(), height_px.to_le_bytes()].concat();
    [
        b"BM".as_slice(),
        &[0; 12],
        &40u32.to_le_bytes(),
        &sides,
        &[0; 8],
    ]
    .concat()
}

fn webp(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WEBP".as_slice(), kind, &[0; 4], body].concat()
}

fn atom(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
    [length.as_slice(), kind, body].concat()
}

fn extent(width_px: u32, height_px: u32) -> Vec<u8> {
    atom(
        b"ispe",
        &[[0; 4], width_px.to_be_bytes(), height_px.to_be_bytes()].concat(),
    )
}

fn heif(brand: &[u8; 4]) -> Vec<u8> {
    let extents = [extent(512, 512), extent(640, 480), extent(160, 120)].concat();
    let properties = atom(b"iprp", &atom(b"ipco", &extents));
    let file_type = atom(b"ftyp", &[brand.as_slice(), &[0; 4], b"mif1"].concat());
    [
        file_type,
        atom(b"meta", &[[0; 4].as_slice(), &properties].concat()),
    ]
    .concat()
}

fn tiff() -> Vec<u8> {
    let entry = |tag: u16, kind: u16, side_px: u16| {
        [tag, kind, 1, 0, side_px, 0].map(u16::to_le_bytes).concat()
    };
    [
        b"II*\0\x08\0\0\0\x02\0".as_slice(),
        &entry(256, 3, 640),
        &entry(257, 4, 480),
    ]
    .concat()
}

fn samples() -> Vec<(ImageFormat, Vec<u8>)> {
    use ImageFormat::{Avif, Bmp, Gif, Heic, Jpeg, Png, Tiff, WebP};
    vec![
        (Png, png(640, 480)),
        (Jpeg, jpeg(0xC0, 640, 480, 30)),
        (Jpeg, jpeg(0xC2, 640, 480, 60_000)),
        (Jpeg, jpeg(0xCF, 640, 480, 0)),
        (Gif, b"GIF87a\x80\x02\xe0\x01".to_vec()),
        (Bmp, bmp(640, 480)),
        (Bmp, bmp(640, -480)),
        (WebP, webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x80\x42\xe0\x81")),
        (
            WebP,
            webp(
                b"VP8L",
                &[&[0x2F], (479u32 << 14 | 639).to_le_bytes().as_slice()].concat(),
            ),
        ),
        (WebP, webp(b"VP8X", &[0, 0, 0, 0, 0x7F, 2, 0, 0xDF, 1, 0])),
        (Tiff, tiff()),
        (Avif, heif(b"avif")),
        (Heic, heif(b"heic")),
    ]
}

#[test]
fn headers_state_the_size() {
    for (format, head) in samples() {
        assert_eq!(
            image_size(&head),
            Some((PixelSize::new(640, 480).unwrap(), format))
        );
    }
}

#[test]
fn every_jpeg_frame_and_no_table_is_a_size() {
    for marker in 0xC0..=0xCF {
        let is_frame = ![0xC4, 0xC8, 0xCC].contains(&marker);
        let head = jpeg(marker, 640, 480, 0);
        assert_eq!(image_size(&head).is_some(), is_frame, "{marker:X}");
    }
}

#[test]
fn impossible_sizes_are_unknown() {
    for (width_px, height_px) in [(0, 1), (1, 0), (u32::MAX, u32::MAX), (1 << 31, 1)] {
        assert_eq!(image_size(&png(width_px, height_px)), None);
    }
    assert_eq!(image_size(&bmp(-1, 1)), None);
    assert_eq!(image_size(&jpeg(0xC0, 1, 0, 0)), None);
}

#[test]
fn a_size_past_the_head_is_unknown() {
    let padding = segment(0xE1, &vec![0; 60_000]);
    let head = [vec![0xFF, 0xD8], padding, jpeg(0xC0, 640, 480, 10_000)].concat();
    assert!(head.len() > HEAD_BYTES);
    assert_eq!(image_size(&head), None);
}

#[test]
fn cut_random_and_mutated_headers_never_panic() {
    let mut random = Random(2);
    for (_, head) in samples() {
        for end in 0..head.len().min(2_000) {
            let _ = image_size(&head[..end]);
        }
        for _ in 0..2_000 {
            let mut head = head.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(head.len().min(200));
                head[at] = random.bytes(1)[0];
            }
            let _ = image_size(&head);
        }
    }
    for _ in 0..20_000 {
        let count = random.below(64);
        let _ = image_size(&random.bytes(count));
    }
}

#[test]
fn boxes_and_segments_without_length_end() {
    let zero_boxes = [heif(b"heic"), vec![0; HEAD_BYTES]].concat();
    assert!(image_size(&zero_boxes).is_some());
    let lying = [
        atom(b"ftyp", b"heic\0\0\0\0"),
        b"\0\0\0\x01meta".to_vec(),
        vec![0xFF; 16],
    ]
    .concat();
    assert_eq!(image_size(&lying), None);
    let endless = [vec![0xFF, 0xD8], vec![0xFF; 2 * HEAD_BYTES]].concat();
    assert_eq!(image_size(&endless), None);
    assert_eq!(image_size(b"\xff\xd8\xff\xe1\0\0\xff\xc0"), None);
}

// ------------------------------------------------------------------ base64 and data URLs

#[test]
fn base64_is_read_as_requests_carry_it() {
    for case in cases(include_str!("../data/images/base64.json"), "cases") {
        let (text, expected) = (
            case["text"].as_str().unwrap(),
            hex(case["hex"].as_str().unwrap()),
        );
        assert_eq!(decode_base64_head(text, HEAD_BYTES), expected, "{text}");
        assert_eq!(
            decode_base64_head(text, 2),
            expected[..expected.len().min(2)],
            "{text}"
        );
        assert_eq!(base64_decoded_len(text), expected.len() as u64, "{text}");
        let mut decoded = Vec::new();
        let end = decode_base64_chunks(text, |chunk| decoded.extend_from_slice(chunk));
        assert_eq!(
            (decoded.len() as u64, end.is_complete),
            (end.decoded_bytes, case["is_complete"] == true)
        );
        assert_eq!(decoded, expected, "{text}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-/";
    let group = |chunk: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(*chunk.get(at).unwrap_or(&0))
        });
        let letters = [18, 12, 6, 0].map(|shift| char::from(LETTERS[bits >> shift & 63]));
        letters
            .into_iter()
            .take(chunk.len() + 1)
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn the_same_bytes_come_out_however_the_text_is_wrapped() {
    let mut random = Random(3);
    for count in [0, 1, 2, 3, 1_000, 12_287, 12_288, 12_289, 50_000] {
        let bytes = random.bytes(count);
        let plain = base64(&bytes);
        let lines: Vec<_> = plain
            .as_bytes()
            .chunks(76)
            .map(|l| std::str::from_utf8(l).unwrap())
            .collect();
        for text in [plain.clone(), lines.join("\r\n"), plain.replace('-', "+")] {
            let mut decoded = Vec::new();
            assert!(
                decode_base64_chunks(&text, |chunk| decoded.extend_from_slice(chunk)).is_complete
            );
            assert_eq!(decoded, bytes);
            assert_eq!(base64_decoded_len(&text), bytes.len() as u64);
            assert_eq!(decode_base64_head(&text, 5_000), bytes[..count.min(5_000)]);
        }
    }
}

#[test]
fn a_size_is_the_same_through_base64() {
    for (_, head) in samples() {
        assert_eq!(base64_image_size(&base64(&head)), image_size(&head));
        let url = format!("data:image/x;base64,{}", base64(&head));
        assert_eq!(
            parse_data_url(&url).unwrap().image_size(),
            image_size(&head)
        );
        let escaped: String = head.iter().map(|byte| format!("%{byte:02x}")).collect();
        let url = format!("data:image/x,{escaped}");
        assert_eq!(
            parse_data_url(&url).unwrap().image_size(),
            image_size(&head)
        );
    }
}

/// A JPEG with many segments of random length and the frame anywhere, here and there mutated.
fn crooked_jpeg(random: &mut Random) -> Vec<u8> {
    let mut head = vec![0xFF, 0xD8];
    for _ in 0..random.below(12) {
        let body = vec![7; random.below(9_000)];
        head.extend(segment(0xE0 + random.bytes(1)[0] % 16, &body));
    }
    head.extend(segment(0xC2, &[8, 1, 0xE0, 2, 0x80, 3, 0, 0, 0]));
    head.extend([0; 40]);
    if random.below(2) == 0 {
        let at = random.below(head.len());
        head[at] = random.bytes(1)[0];
    }
    head
}

#[test]
fn reading_less_of_the_text_never_changes_a_size() {
    let mut random = Random(4);
    for _ in 0..1_000 {
        let mut text = base64(&crooked_jpeg(&mut random));
        let at = random.below(text.len());
        match random.below(4) {
            0 => text.insert(at, '\n'),
            1 => text.insert(at, '='),
            2 => text.truncate(at),
            _ => {}
        }
        let whole_head = decode_base64_head(&text, HEAD_BYTES);
        assert_eq!(base64_image_size(&text), image_size(&whole_head));
    }
}

#[test]
fn data_urls_are_split() {
    for case in cases(include_str!("../data/images/data_urls.json"), "cases") {
        let url = parse_data_url(case["url"].as_str().unwrap());
        assert_eq!(
            url.as_ref().map(|url| url.mime.as_str()),
            case["mime"].as_str(),
            "{case}"
        );
        let Some(url) = url else { continue };
        assert_eq!(Some(url.is_base64), case["is_base64"].as_bool(), "{case}");
        let expected = hex(case["hex"].as_str().unwrap());
        assert_eq!(url.head(HEAD_BYTES), expected, "{case}");
        let mut content = Vec::new();
        url.chunks(|chunk| content.extend_from_slice(chunk));
        assert_eq!(content, expected, "{case}");
    }
}

#[test]
fn a_long_header_is_no_data_url() {
    assert!(parse_data_url(&format!("data:{},", "a".repeat(1_024))).is_some());
    assert!(parse_data_url(&format!("data:{},", "a".repeat(1_025))).is_none());
}
