//! Parameters with their SQL types: a statement whose types are told with it goes to the server and
//! back once, and nothing is prepared there that a pooler could lose.

use std::time::SystemTime;

use postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A parameter beside its type, as `query_typed` takes it.
pub(crate) type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

/// A Rust type that is sent as one SQL type.
pub(crate) trait Parameter: ToSql + Sync {
    /// That type.
    const TYPE: Type;
}

macro_rules! sent_as {
    ($($rust:ty => $sql:ident),+ $(,)?) => {
        $(impl Parameter for $rust { const TYPE: Type = Type::$sql; })+
    };
}

sent_as! {
    &str => TEXT, String => TEXT, i32 => INT4, i64 => INT8, Uuid => UUID, SystemTime => TIMESTAMPTZ,
}

impl<T: Parameter> Parameter for Option<T> {
    const TYPE: Type = T::TYPE;
}

/// A parameter with its type.
pub(crate) const fn typed<T: Parameter>(value: &T) -> Typed<'_> {
    (value, T::TYPE)
}

/// The parameters of one statement: `params![run_id, at]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::typed::typed(&$value)),*] };
}
pub(crate) use params;
