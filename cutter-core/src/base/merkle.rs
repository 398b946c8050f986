//! Merkle trees of RFC 6962 §2.1 over sha256: one digest that names a list of rows, and that
//! single rows can later be proved against. Leaves and inner nodes are hashed apart (0x00 and
//! 0x01 before the bytes), so that neither can be given out as the other.

use alloc::vec::Vec;

use crate::base::digest::{Digest, Hasher};

/// The hash of one leaf: sha256(0x00 ‖ data).
#[must_use]
pub fn leaf(data: &[u8]) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(&[0]);
    hasher.update(data);
    hasher.finish()
}

fn node(left: &Digest, right: &Digest) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(&[1]);
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    hasher.finish()
}

/// A tree that grows leaf by leaf. It holds one digest per level, however many leaves there are.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Whole subtrees, largest first, with the number of their leaves: a power of two, each
    /// smaller than the one before.
    whole: Vec<(u64, Digest)>,
}

impl Tree {
    /// Adds a leaf by its hash ([`leaf`]).
    pub fn push(&mut self, leaf: Digest) {
        let (mut size, mut hash) = (1, leaf);
        while let Some((_, left)) = self.whole.pop_if(|(leaves, _)| *leaves == size) {
            hash = node(&left, &hash);
            size *= 2;
        }
        self.whole.push((size, hash));
    }

    /// How many leaves there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.whole.iter().map(|(leaves, _)| leaves).sum()
    }

    /// The root; the sha256 of nothing for a tree without leaves.
    #[must_use]
    pub fn root(&self) -> Digest {
        let hashes = self.whole.iter().rev().map(|(_, hash)| *hash);
        hashes.reduce(|right, left| node(&left, &right)).unwrap_or_else(|| Digest::of(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition of RFC 6962 §2.1, written out.
    fn by_definition(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(&[]),
            [only] => *only,
            _ => {
                let k = leaves.len().next_power_of_two() / 2;
                node(&by_definition(&leaves[..k]), &by_definition(&leaves[k..]))
            }
        }
    }

    fn root_of(data: &[&[u8]]) -> Digest {
        let mut tree = Tree::default();
        data.iter().for_each(|d| tree.push(leaf(d)));
        tree.root()
    }

    #[test]
    fn the_known_roots_of_certificate_transparency() {
        // The test inputs that its implementations share, and the roots of their first n.
        let data: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        for (n, root) in [
            (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
            (2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
            (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
            (4, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
            (5, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
            (6, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
            (7, "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
            (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
        ] {
            assert_eq!(root_of(&data[..n]).to_hex(), root, "{n} leaves");
        }
    }

    proptest! {
        #[test]
        fn a_growing_tree_has_the_root_of_the_definition(n in 0_u32..200) {
            let leaves: Vec<Digest> = (0..n).map(|i| leaf(&i.to_be_bytes())).collect();
            let mut tree = Tree::default();
            leaves.iter().for_each(|l| tree.push(*l));
            prop_assert_eq!(tree.root(), by_definition(&leaves));
            prop_assert_eq!(tree.size(), u64::from(n));
        }
    }
}
