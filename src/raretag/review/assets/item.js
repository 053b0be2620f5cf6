// One item with all its labels.

import { ask, find, inTurn, make, picture, tell, two } from "./dom.js";

const WORDS = { yes: "Yes", no: "No", unsure: "?" };
const SPOKEN = { yes: "yes", no: "no", unsure: "not sure" };

export class ItemView {
  constructor(app) {
    this.app = app;
    this.rows = [];
    this.place = 0;
    this.at = 0;
    this.item = null;
  }

  async load() {
    this.rows = (await ask(`api/list?mode=item&${this.app.query()}`)).items;
    this.place = 0;
    await this.show();
  }

  async show(row = null) {
    if (row !== null && this.rows.includes(row)) this.place = this.rows.indexOf(row);
    const wanted = row !== null ? row : this.rows[this.place];
    if (wanted === undefined) {
      this.item = null;
      this.app.showEnd(this.rows.length);
      return;
    }
    this.item = await ask(`api/items/${wanted}`);
    const wantsConflicts = find("select[name=state]").value === "conflict";
    const open = this.item.questions.findIndex((one) =>
      wantsConflicts ? one.state === "conflict" : !this.mine(one) && one.state !== "answered");
    this.at = Math.max(open, 0);
    this.draw();
    const next = this.rows[this.place + 1];
    if (next !== undefined && this.item.image) new Image().src = `pictures/960/${next}`;
  }

  mine(one) { return one.answers[this.app.by()]; }

  draw() {
    const { item } = this;
    const seen = item.image
      ? picture(item.row, 960, `item ${item.item}`)
      : make("p", { class: "text", tabindex: "0" }, item.text || `${item.item} (numbers only: there is nothing to look at)`);
    const figure = make("figure", { class: "seen" }, seen, make("figcaption", {}, item.item, item.file ? make("span", { class: "file" }, item.file) : null));
    const questions = item.questions.map((one, place) => this.question(one, place));
    const side = make("div", {},
      make("h2", {}, "Are these labels right?"),
      make("ul", { class: "rows" }, ...questions),
      make("h3", {}, "Known labels (press one that is wrong)"),
      item.known.length
        ? make("ul", { class: "chips" }, ...item.known.map((one) => make("li", {}, this.chip(one, "no"))))
        : make("p", { class: "quiet" }, "none"),
      make("h3", {}, "Another label that it has"),
      ...(item.own.length ? [make("ul", { class: "chips" }, ...item.own.map((one) => make("li", {}, this.chip(one, "yes"))))] : []),
      this.adder());
    const pager = make("div", { class: "pager" },
      make("button", { type: "button", id: "back", disabled: this.place === 0, onclick: () => this.move(-1) }, "← Back"),
      make("span", { class: "quiet" }, `${(this.place + 1).toLocaleString("en")} of ${this.rows.length.toLocaleString("en")}`),
      make("button", { type: "button", id: "skip", onclick: () => this.move(1) }, "Skip →"));
    find("#main").replaceChildren(make("article", { class: "item", "aria-label": `item ${item.item}` }, figure, make("div", {}, side, pager)));
  }

  question(one, place) {
    const mine = this.mine(one);
    const people = Object.entries(one.answers).map(([by, word]) => `${by}: ${SPOKEN[word]}`).join(", ");
    const about = one.was === "positive" ? `marked; probability ${two(1 - one.probability)}` : `probability ${two(one.probability)}`;
    const shown = mine || (one.state === "answered" ? Object.values(one.answers)[0] : null);
    const buttons = Object.entries(WORDS).map(([word, text]) => make("button", {
      type: "button", class: word, "aria-pressed": String(shown === word), "aria-label": `${SPOKEN[word]}: ${one.label}`,
      onclick: () => { this.at = place; inTurn(() => this.answer(word)); },
    }, text));
    return make("li", { class: place === this.at ? "at" : null, "data-number": one.number },
      make("strong", {}, one.label),
      make("span", { class: "answers", role: "group", "aria-label": one.label }, ...buttons),
      make("span", { class: "about" }, [about, one.group].filter(Boolean).join(" · ") + (people && one.state !== "conflict" ? ` · ${people}` : "")),
      one.state === "conflict" ? make("span", { class: "disagree" }, `People disagree (${people}): the next answer settles it`) : null);
  }

  chip(one, word) {
    const given = Object.values(one.answers)[0];
    return make("button", {
      type: "button", class: given || null, "aria-pressed": String(given === word), "aria-label": `${word === "no" ? "wrong" : "right"}: ${one.label}`,
      onclick: () => inTurn(() => this.send([{ item: this.item.item, label: one.label, answer: given === word ? (word === "no" ? "yes" : "no") : word }], false)),
    }, one.label);
  }

  adder() {
    const input = make("input", { list: "labels", id: "another", "aria-label": "another label that this item has", autocomplete: "off" });
    const add = () => {
      const label = input.value.trim();
      if (label) inTurn(() => this.send([{ item: this.item.item, label, answer: "yes" }], false));
    };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); add(); } });
    return make("div", { class: "add" }, input, make("button", { type: "button", onclick: add }, "Add"));
  }

  async answer(word) {
    const one = this.item && this.item.questions[this.at];
    if (!one) return;
    const settles = one.state === "conflict";
    await this.send([{ item: this.item.item, label: one.label, answer: word }], settles);
    const open = this.item.questions.findIndex((other, place) => place !== this.at && !Object.keys(other.answers).length);
    if (open >= 0) { this.at = open; this.draw(); } else { await this.step(1); }
  }

  async send(answers, settles) {
    const { summary } = await tell("api/answers", { by: this.app.by(), answers, settles });
    this.app.count(summary);
    const at = this.at;
    this.item = await ask(`api/items/${this.item.row}`);
    this.at = at;
    this.draw();
  }

  move(by) { return inTurn(() => this.step(by)); }

  async step(by) {
    this.place = Math.max(this.place + by, 0);
    await this.show();
    window.scrollTo(0, 0);
  }

  key(key) {
    const words = { y: "yes", n: "no", u: "unsure" };
    if (words[key]) inTurn(() => this.answer(words[key]));
    else if (key === "s" || key === "ArrowRight") this.move(1);
    else if (key === "ArrowLeft") this.move(-1);
    else if ((key === "ArrowDown" || key === "ArrowUp") && this.item) {
      const count = this.item.questions.length;
      this.at = (this.at + (key === "ArrowDown" ? 1 : count - 1)) % count;
      this.draw();
    } else return false;
    return true;
  }

  undone(entries) { return this.show(entries[0].row); }
}
