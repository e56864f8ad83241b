// Pieces of the page. All text goes in as text, never as HTML.

export function element(id: string): HTMLElement;
export function element<T extends HTMLElement>(id: string, type: new () => T): T;
export function element(id: string, type: new () => HTMLElement = HTMLElement): HTMLElement {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}

export function row(...cells: HTMLElement[]): HTMLTableRowElement {
  const line = document.createElement("tr");
  line.append(...cells);
  return line;
}

export function cell(content: string | Node, name: "td" | "th" = "td"): HTMLTableCellElement {
  const made = document.createElement(name);
  if (name === "th") made.scope = "row";
  made.append(content);
  return made;
}

export function code(text: string): HTMLElement {
  const made = document.createElement("code");
  made.textContent = text;
  return made;
}

/** entry is a line of the log: what kind of thing, as a word, and the thing. */
export function entry(kind: string, text: string): HTMLLIElement {
  const line = document.createElement("li");
  const word = document.createElement("strong");
  word.textContent = kind;
  line.dataset.kind = kind;
  line.append(word, ": ", text);
  return line;
}

export function money(minor: number, currency: string): string {
  return new Intl.NumberFormat("en", { style: "currency", currency }).format(minor / 100);
}
