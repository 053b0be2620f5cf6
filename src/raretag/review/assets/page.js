// The page: modes, filters, keys, and the counter of what the answers say of the promise.

import { ask, find, inTurn, make, showTrouble, tell } from "./dom.js";
import { GridView } from "./grid.js";
import { ItemView } from "./item.js";
import { TrainingDialog } from "./training.js";

const many = (number) => number.toLocaleString("en");
const percent = (share) => `${Math.round(100 * share)} %`;
const isWide = (promise) => promise.interval[1] - promise.interval[0] > 0.3;
const interval = (promise) => `${Math.round(100 * promise.interval[0])} to ${percent(promise.interval[1])}`;

class App {
  constructor() {
    this.summary = null;
    this.views = { item: new ItemView(this), label: new GridView(this) };
    this.mode = "item";
    const name = find("#by");
    name.value = sessionStorage.getItem("by") || `guest-${Math.random().toString(36).slice(2, 6)}`;
    sessionStorage.setItem("by", name.value);
    name.addEventListener("change", () => {
      name.value = name.value.trim() || "guest";
      sessionStorage.setItem("by", name.value);
    });
  }

  get view() { return this.views[this.mode]; }
  by() { return find("#by").value.trim() || "guest"; }
  label() { return find("#label").value; }
  known(label) { const one = this.summary.labels.find((other) => other.label === label); return one ? one.known : null; }

  query(changes = {}) {
    const form = Object.fromEntries(new FormData(find("#filter")));
    return new URLSearchParams({ ...form, ...changes }).toString();
  }

  async start() {
    this.count(await ask("api/summary"));
    find("#name").textContent = `${this.summary.name} · ${this.summary.data}`;
    document.title = `${this.summary.name} – raretag review`;
    find("#group").append(...this.summary.groups.map((group) => make("option", { value: group }, group)));
    document.body.append(make("datalist", { id: "labels" }, ...this.summary.all_labels.map((label) => make("option", { value: label }))));
    if (window.innerWidth < 760) find("#filters").open = false;
    this.listen();
    this.training = new TrainingDialog(this);
    if (this.summary.training && this.summary.training.state === "running") this.training.follow();
    await this.view.load();
    setInterval(() => this.look(), 5000);
  }

  listen() {
    for (const mode of ["item", "label"]) find(`#mode-${mode}`).addEventListener("click", () => this.choose(mode));
    find("#undo").addEventListener("click", () => this.undo());
    const form = find("#filter");
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => inTurn(() => this.reload()));
    let waiting;
    find("#search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => inTurn(() => this.reload()), 250);
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || find("#training").open) return;
    const typing = event.target.matches("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") { event.target.blur(); find("#main").focus(); }
      return;
    }
    const pressing = event.target.matches("button, summary, a") && !event.target.matches(".face");
    if (pressing && (event.key === "Enter" || event.key === " ")) return;
    let done = true;
    if (event.key === "z") this.undo();
    else if (event.key === "m") this.choose(this.mode === "item" ? "label" : "item");
    else if (event.key === "/") { find("#filters").open = true; find("#search").focus(); }
    else done = this.view.key(event.key, event.target);
    if (done) event.preventDefault();
  }

  choose(mode) {
    this.mode = mode;
    for (const other of ["item", "label"]) find(`#mode-${other}`).setAttribute("aria-pressed", String(other === mode));
    return inTurn(() => this.reload());
  }

  async reload() {
    showTrouble("");
    await this.view.load();
  }

  undo() {
    return inTurn(async () => {
      showTrouble("");
      const { undone, summary } = await tell("api/undo", { by: this.by() });
      this.count(summary);
      if (undone.length) await this.view.undone(undone);
      else showTrouble(`${this.by()} has no answer that could be taken back`);
    });
  }

  async look() {
    if (document.hidden) return;
    try { this.count(await ask("api/summary")); } catch (error) { showTrouble(error.message); }
  }

  count(summary) {
    this.summary = summary;
    const { answered, listed, conflicts, promise, words } = summary;
    find("#done").value = listed ? 1 - summary.open / listed : 1;
    const parts = [`${many(answered)} of ${many(listed)} suggestions answered (${many(words.yes)} yes, ${many(words.no)} no, ${many(words.unsure)} not sure)`];
    if (conflicts) parts.push(`${many(conflicts)} ${conflicts === 1 ? "conflict" : "conflicts"}`);
    if (summary.damaged) parts.push(`${summary.damaged} damaged lines of the log were passed over`);
    find("#counted").textContent = parts.join(" · ");
    let said = "";
    if (promise.answered) said = `Of ${many(promise.answered)} answered suggestions ${percent(promise.right / promise.answered)} were right; promised ${interval(promise.promised)}.`;
    if (promise.expected) said += ` Expect ${percent(promise.expected.expected)} of ${promise.answered ? "the open ones" : "all suggestions"} to be right (${interval(promise.expected)}).`;
    if (promise.expected && isWide(promise.expected)) said += " Fifty answers in random order (see Filter and order) would show this more exactly.";
    find("#promised").textContent = said.trim();
    this.chooseLabels();
  }

  chooseLabels() {
    const select = find("#label");
    const chosen = select.value;
    const wanted = JSON.stringify(this.summary.labels.map((one) => [one.label, one.open]));
    if (wanted === this.labelsShown || document.activeElement === select) return;
    this.labelsShown = wanted;
    select.replaceChildren(make("option", { value: "" }, "all, rarest first"),
      ...this.summary.labels.map((one) => make("option", { value: one.label }, `${one.label} (${one.open} open, ${one.known} known)`)));
    select.value = chosen;
  }

  showEnd(count) {
    find("#main").replaceChildren(make("div", { class: "empty" },
      make("h2", {}, this.summary.open ? "Nothing is left with these filters" : "All suggestions are answered"),
      make("p", { class: "quiet" }, count ? "Those that you skipped are shown again." : "Choose other filters, or train again."),
      make("button", { type: "button", id: "again", onclick: () => inTurn(() => this.reload()) }, "Show what is open")));
  }
}

const app = new App();
inTurn(() => app.start());
