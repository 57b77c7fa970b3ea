//! Numbers as strings such as `"0xffff800000000000"`, for serde.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn serialize<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{number:#x}"))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    number(&Cow::<str>::deserialize(from)?)
}

fn number<E: Error>(text: &str) -> Result<u64, E> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    u64::from_str_radix(digits, 16)
        .map_err(|_| E::custom(format_args!("{text}: not 0x and hexadecimal digits")))
}

/// The same for several numbers.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let texts: Vec<String> = numbers.iter().map(|number| format!("{number:#x}")).collect();
        texts.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let texts = Vec::<Cow<'_, str>>::deserialize(from)?;
        texts.iter().map(|text| number(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::find::Place;

    #[test]
    fn each_number_comes_back() {
        let place = Place { cpu: 3, time: 4, instruction: u64::MAX, callers: vec![0, 1 << 63] };
        let text = serde_json::to_string(&place).unwrap();
        let expected =
            r#"{"cpu":3,"time":4,"instruction":"0xffffffffffffffff","callers":["0x0","0x8000000000000000"]}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Place>(&text).unwrap(), place);
        for wrong in ["\"12\"", "\"0x\"", "\"0xg\"", "\"0x10000000000000000\"", "12"] {
            let text = text.replace("\"0xffffffffffffffff\"", wrong);
            assert!(serde_json::from_str::<Place>(&text).is_err(), "{text}");
        }
    }
}
