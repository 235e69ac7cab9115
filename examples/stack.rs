/// A stack of numbers.
pub struct Stack {
    items: Vec<i64>,
}

impl Stack {
    pub fn new() -> Self {
        Stack { items: ??? }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        ???
    }

    /// The item on top, which stays there.
    pub fn peek(&self) -> Option<&i64> {
        ???
    }
}
