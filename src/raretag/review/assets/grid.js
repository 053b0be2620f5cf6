// One label over many items. Each card shows what the model believes; press those where it errs, and save.

import { ask, find, inTurn, make, picture, tell, two } from "./dom.js";

const VERDICTS = { yes: "right", no: "wrong", unsure: "not sure", skip: "leave open" };

const rightness = (one) => (one.was === "positive" ? 1 - one.probability : one.probability); // that the label is right

const guess = (one) => (rightness(one) >= 0.5 ? "yes" : "no");

export class GridView {
  constructor(app) {
    this.app = app;
    this.labels = []; // in turn, rarest first
    this.turn = 0;
    this.numbers = [];
    this.start = 0;
    this.cards = [];
  }

  get size() { return window.innerWidth < 760 ? 12 : 24; }

  async load(label = "") {
    const chosen = this.app.label();
    this.labels = chosen ? [chosen] : (await ask(`api/list?mode=labels&${this.app.query()}`)).labels;
    this.turn = Math.max(this.labels.indexOf(label), 0);
    await this.open();
  }

  async open() {
    this.label = this.labels[this.turn];
    this.numbers = this.label === undefined
      ? [] : (await ask(`api/list?mode=label&${this.app.query({ label: this.label })}`)).questions;
    this.start = 0;
    await this.show();
  }

  async show() {
    const some = this.numbers.slice(this.start, this.start + this.size);
    if (!some.length) {
      this.turn += 1;
      if (this.turn < this.labels.length) { await this.open(); return; }
      this.cards = [];
      this.app.showEnd(this.numbers.length);
      return;
    }
    const { questions } = await ask(`api/questions?numbers=${some.join(",")}`);
    this.cards = questions.map((one) => ({ ...one, verdict: one.answers[this.app.by()] || (one.state === "answered" ? Object.values(one.answers)[0] : guess(one)) }));
    this.draw();
  }

  draw() {
    const known = this.app.known(this.label);
    const open = this.cards.length;
    const list = make("ul", { class: "grid" }, ...this.cards.map((card, place) => this.card(card, place)));
    const end = Math.min(this.start + this.size, this.numbers.length);
    find("#main").replaceChildren(
      make("h2", {}, `Is “${this.label}” right?`),
      make("p", { class: "quiet" }, `Each card shows what the model believes: press those where it errs, then save. ${known === null ? "" : `Known so far: ${known.toLocaleString("en")}.`}`),
      list,
      make("div", { class: "pager" },
        make("button", { type: "button", id: "back", disabled: this.start === 0, onclick: () => this.page(-1) }, "← Back"),
        make("span", { class: "quiet" }, `${this.start + 1}–${end} of ${this.numbers.length.toLocaleString("en")}`),
        make("button", { type: "button", id: "skip", onclick: () => this.page(1) }, "Skip →"),
        make("button", { type: "button", id: "save", class: "strong", onclick: () => inTurn(() => this.save()) }, `Save ${open}`)));
  }

  card(card, place) {
    const seen = card.image
      ? picture(card.row, 240, `item ${card.item}`)
      : make("span", { class: "excerpt" }, card.text.slice(0, 400) || card.item);
    const people = card.state === "conflict" ? " · people disagree" : "";
    const face = make("button", {
      type: "button", class: "face", "data-place": place, "aria-pressed": String(card.verdict === "no"),
      onclick: () => this.mark(place, card.verdict === "yes" ? "no" : "yes"),
    }, seen, make("span", { class: "verdict" }, make("span", {}, VERDICTS[card.verdict] + people), make("span", {}, two(rightness(card)))));
    const more = ["unsure", "skip"].map((word) => make("button", {
      type: "button", "aria-pressed": String(card.verdict === word), "aria-label": `${VERDICTS[word]}: item ${card.item}`,
      onclick: () => this.mark(place, card.verdict === word ? guess(card) : word),
    }, VERDICTS[word]));
    return make("li", { class: `card ${card.verdict}` }, face, make("div", { class: "more" }, ...more));
  }

  mark(place, verdict) {
    this.cards[place].verdict = verdict;
    const old = find(`.grid > li:nth-child(${place + 1})`);
    old.replaceWith(this.card(this.cards[place], place));
    this.focus(place);
  }

  focus(place) {
    const face = find(`.face[data-place="${place}"]`);
    if (face) face.focus();
  }

  async save() {
    const given = this.cards.filter((card) => card.verdict !== "skip");
    for (const settles of [false, true]) {
      const answers = given.filter((card) => (card.state === "conflict") === settles)
        .map((card) => ({ item: card.item, label: card.label, answer: card.verdict }));
      if (answers.length) this.app.count((await tell("api/answers", { by: this.app.by(), answers, settles })).summary);
    }
    await this.step(1);
    this.focus(0);
  }

  page(by) { return inTurn(() => this.step(by)); }

  async step(by) {
    this.start = Math.max(this.start + by * this.size, 0);
    await this.show();
    window.scrollTo(0, 0);
  }

  key(key, target) {
    const face = target.closest && target.closest(".card");
    const place = face ? [...face.parentNode.children].indexOf(face) : -1;
    const words = { n: "no", y: "yes", u: "unsure", s: "skip" };
    const width = this.columns();
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width };
    if (key === "Enter" && this.cards.length) inTurn(() => this.save());
    else if (moves[key]) this.focus(place < 0 ? 0 : Math.min(Math.max(place + moves[key], 0), this.cards.length - 1));
    else if (words[key] && place >= 0) {
      this.mark(place, words[key]);
      this.focus(Math.min(place + 1, this.cards.length - 1));
    } else return false;
    return true;
  }

  columns() {
    const cards = [...document.querySelectorAll(".grid > li")];
    return Math.max(cards.filter((card) => card.offsetTop === cards[0].offsetTop).length, 1);
  }

  async undone(entries) { await this.load(entries[0].label); }
}
