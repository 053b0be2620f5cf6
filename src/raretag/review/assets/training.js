// "Train again": corrected labels, a run with progress, and what changed.

import { ask, find, inTurn, make, tell } from "./dom.js";

const percent = (share) => (share === null ? "–" : (100 * share).toFixed(1));
const signed = (share) => {
  const points = Math.abs(100 * share).toFixed(1);
  return points === "0.0" ? points : `${share > 0 ? "+" : "−"}${points}`;
};

export class TrainingDialog {
  constructor(app) {
    this.app = app;
    this.dialog = find("#training");
    find("#train").addEventListener("click", () => { this.draw(app.summary.training); this.dialog.showModal(); });
    find("#training-close").addEventListener("click", () => this.dialog.close());
    find("#training-start").addEventListener("click", () => inTurn(() => this.start()));
    find("#training-stop").addEventListener("click", () => inTurn(async () => this.draw(await tell("api/stop", {}))));
  }

  async start() {
    find("#training-start").disabled = true;
    try {
      this.draw(await tell("api/train", {}));
    } catch (error) {
      this.draw(null, error.message);
      return;
    }
    this.follow();
  }

  async follow() {
    for (;;) {
      await new Promise((done) => { setTimeout(done, 700); });
      try { this.app.count(await ask("api/summary")); } catch { continue; }
      const round = this.app.summary.training;
      this.draw(round);
      if (!round || round.state !== "running") return;
    }
  }

  draw(round, trouble = "") {
    const { words, conflicts } = this.app.summary;
    const running = Boolean(round) && round.state === "running";
    find("#training-start").disabled = running;
    find("#training-stop").hidden = !running;
    const parts = [];
    if (trouble) parts.push(make("p", { role: "alert", class: "down" }, trouble));
    if (!round) {
      parts.push(make("p", {}, `${words.yes} yes, ${words.no} no and ${words.unsure} not sure become corrected labels in a new file; your own file stays as it is. The model is trained again on them and tested on the same items.`));
      if (conflicts) parts.push(make("p", { class: "down" }, `${conflicts} conflicts are left out until somebody settles them.`));
    } else {
      parts.push(make("p", {}, `Round ${round.number}: ${round.changed} labels changed${round.conflicts ? `, ${round.conflicts} conflicts left out` : ""}. ${{ running: "Training …", finished: "Finished.", failed: "It failed.", stopped: "Stopped." }[round.state]}`));
      parts.push(make("progress", { value: round.progress, max: 1, "aria-label": "training" }));
      if (round.state === "failed") parts.push(...round.messages.slice(-3).map((line) => make("p", { class: "down" }, line)));
      if (round.result) parts.push(...this.result(round.result));
      parts.push(make("p", { class: "quiet" }, "Labels: ", make("code", {}, round.corrections)));
      if (round.state === "finished") parts.push(make("p", { class: "quiet" }, "Go on with ", make("code", {}, `raretag review ${round.out}`)));
    }
    find("#training-body").replaceChildren(...parts);
  }

  result(found) {
    const parts = [make("p", {}, make("strong", {}, found.sentence))];
    if (!found.parts) return parts;
    const row = (cells) => make("tr", {}, make("th", { scope: "row" }, cells[0]), ...cells.slice(1).map((cell) => (typeof cell === "string" ? make("td", {}, cell) : cell)));
    const sure = (one) => (one.low > 0 ? "up" : one.high < 0 ? "down" : null); // coloured only where the interval has one sign
    const head = (...names) => make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name))));
    parts.push(make("table", {}, head("labels", "before", "after", "change", "95 % interval"),
      make("tbody", {}, ...found.parts.map((one) => row([one.part === "total" ? "all" : one.part, percent(one.before), percent(one.after), make("td", { class: sure(one) }, signed(one.after - one.before)), `${signed(one.low)} to ${signed(one.high)}`])))));
    if (found.labels.length) {
      parts.push(make("h3", {}, "Labels that moved most (average precision)"));
      parts.push(make("table", {}, head("label", "before", "after", "change"),
        make("tbody", {}, ...found.labels.map((one) => row([one.label, percent(one.before), percent(one.after), signed(one.after - one.before)])))));
    }
    return parts;
  }
}
