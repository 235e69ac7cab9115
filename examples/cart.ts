interface Item {
  name: string;
  price: number;
  quantity: number;
}

/** The price of all items together. */
function total(items: Item[]): number {
  return items.reduce((sum, item) => sum + item.price * ???, 0);
}

/** Whether nothing is in the cart. */
function isEmpty(items: Item[]): boolean {
  return ???;
}
