//! Which QEMU has the plugin interface that the plugin is made for.

/// The first QEMU whose plugins can read registers and memory: major and minor version.
pub const FIRST: (u32, u32) = (9, 2);

/// The major and the minor version in what QEMU prints about itself. `None`: it is no emulator of a machine.
pub fn version_in(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("QEMU emulator version ")?.1.split(['.', ' ', '\n']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright (c)\n";
        for (text, expected) in [
            (debian, Some((10, 0))),
            ("QEMU emulator version 7.2.22\n", Some((7, 2))),
            ("qemu-x86_64 version 7.2", None),
            ("", None),
        ] {
            assert_eq!(version_in(text), expected, "{text}");
        }
    }
}
