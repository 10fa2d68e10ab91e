// The panel of a node: its equation, what it reads, and how it responds to columns.

const MAX_LISTED = 30;
const MAX_RESPONSES = 6;

class Panel {
  constructor(app) {
    this.app = app;
    this.box = document.getElementById("machine-panel");
    this.title = document.getElementById("machine-panel-title");
    this.content = document.getElementById("machine-panel-content");
    this.column = null; // whose curve is shown; null: the one that moves the node most
    document.getElementById("machine-panel-close").addEventListener("click", () => app.close());
    document.getElementById("machine").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.box.hidden) app.close();
    });
  }

  open() {
    this.column = null;
    this.box.hidden = false;
    this.update();
    this.title.focus();
  }

  update() {
    const { app } = this;
    if (this.box.hidden || app.selected === null) return;
    const value = app.selected;
    const unit = app.unit(value);
    this.title.textContent = app.nodeName(value);
    const focused = this.content.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const parts = [element("p", { class: "muted" }, app.nodeKind(value))];
    parts.push(element("p", { class: "now-value" }, "current value ", element("strong", {}, app.nodeValue(value))));
    if (unit) {
      parts.push(this.heading("Equation"));
      parts.push(
        unit.equation
          ? element("pre", {}, unit.equation.replace(/\n\s+/g, " "))
          : element(
              "p",
              { class: "muted" },
              `${unit.function === "identity" ? "A" : `${unit.function} of a`} sum of ${unit.sources.length} terms; see below.`,
            ),
      );
      if (app.functionText(unit)) parts.push(element("p", { class: "muted" }, app.functionText(unit)));
      parts.push(...this.responses(value));
      parts.push(...this.contributions(value, unit));
    } else {
      parts.push(this.heading("How it is computed"), element("p", {}, app.recipeText(value)));
    }
    parts.push(...this.readers(value));
    this.content.replaceChildren(...parts);
    if (focused) this.content.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  heading(text) {
    return element("h4", {}, text);
  }

  // Which columns move the node, the others being as in the row; and the curve over one of them.
  responses(value) {
    const { app } = this;
    const output = app.machine.outputs.indexOf(value);
    const valueOf = (values) =>
      output < 0 ? values[value] : app.outputNumber(output, app.machines.predict(app.machine, values));
    const found = app.columns
      .map((place) => {
        const own = response(app, place, 41, valueOf);
        const numbers = own.points.map((point) => point.value);
        own.low = Math.min(...numbers, own.at.value);
        own.high = Math.max(...numbers, own.at.value);
        return own;
      })
      .filter((own) => own.high > own.low)
      .sort((a, b) => b.high - b.low - (a.high - a.low));
    const heading = this.heading("What it responds to");
    if (!found.length) return [heading, element("p", { class: "muted" }, "For this row, no single column changes it.")];
    const chosen = found.find((own) => own.place === this.column) ?? found[0];
    const name = (own) => app.data.columns[own.place].name;
    const shown = output >= 0 && app.prediction.probabilities ? shownShare : shownNumber;
    const buttons = found.slice(0, MAX_RESPONSES).map((own) => {
      const button = element(
        "button",
        {
          type: "button",
          class: "response-choice",
          "aria-pressed": String(own === chosen),
          "data-key": `column-${own.place}`,
        },
        element("span", {}, name(own)),
        element("span", { class: "muted" }, `${shown(own.low)} … ${shown(own.high)}`),
      );
      button.addEventListener("click", () => {
        this.column = own.place;
        this.update();
      });
      return button;
    });
    const more = found.length - buttons.length;
    const chart = responseChart(app.data.columns[chosen.place], chosen, extentOf([chosen]), {
      width: 330,
      height: 130,
      axes: true,
    });
    return [
      heading,
      element(
        "p",
        { class: "muted" },
        `${output < 0 ? "Its value" : "The prediction"} over the range of ${name(chosen)}, with the other values as set in “What if”:`,
      ),
      chart,
      element(
        "div",
        { class: "response-choices", role: "group", "aria-label": "Columns that change it, and its range" },
        ...buttons,
      ),
      ...(more > 0
        ? [element("p", { class: "muted" }, `${plural(more, "other column changes", "other columns change")} it less.`)]
        : []),
    ];
  }

  contributions(value, unit) {
    const { app } = this;
    const terms = unit.sources.map((source, i) => ({
      source,
      weight: unit.weights[i],
      now: unit.weights[i] * app.values[source],
    }));
    terms.sort((a, b) => Math.abs(b.now) - Math.abs(a.now) || Math.abs(b.weight) - Math.abs(a.weight));
    const rows = terms
      .slice(0, MAX_LISTED)
      .map((term) => this.edgeRow(term.source, value, app.nodeName(term.source), term.weight, term.now));
    if (unit.bias !== 0) rows.push(this.edgeRow(null, value, "bias", unit.bias, unit.bias));
    this.scaleBars(rows);
    const rest = terms.length - MAX_LISTED;
    return [
      this.heading("Current terms of the sum"),
      this.table(["from", "weight", "adds"], rows),
      ...(rest > 0
        ? [element("p", { class: "muted" }, `${plural(rest, "smaller term is", "smaller terms are")} not listed.`)]
        : []),
    ];
  }

  readers(value) {
    const { app } = this;
    const found = [];
    app.machine.units.forEach((unit, place) => {
      const i = unit.sources.indexOf(value);
      if (i >= 0) found.push({ target: app.data.inputs.length + place, weight: unit.weights[i] });
    });
    if (!found.length) return [];
    found.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
    const rows = found
      .slice(0, MAX_LISTED)
      .map(({ target, weight }) =>
        this.edgeRow(value, target, app.nodeName(target), weight, weight * app.values[value]),
      );
    this.scaleBars(rows);
    return [this.heading("Where it is used"), this.table(["to", "weight", "adds there"], rows)];
  }

  table(names, rows) {
    const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
    return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map((row) => row.line)));
  }

  // A row that points at its edge in the drawing, by mouse and by keyboard.
  edgeRow(source, target, name, weight, now) {
    const { app } = this;
    const link = element(
      "button",
      { type: "button", class: "edge-link", "data-key": `edge-${source}-${target}` },
      name,
    );
    const bar = element("span", { class: `bar ${now < 0 ? "negative" : "positive"}` });
    const line = element(
      "tr",
      {},
      element("td", {}, source === null ? name : link),
      element("td", {}, signed(weight)),
      element("td", {}, bar, signed(now)),
    );
    if (source !== null) {
      const other = app.selected === source ? target : source;
      const point = () => app.drawing.pointAt(source, target);
      const leave = () => app.drawing.show(null);
      line.addEventListener("pointerenter", point);
      line.addEventListener("pointerleave", leave);
      link.addEventListener("focus", point);
      link.addEventListener("blur", leave);
      link.addEventListener("click", () => app.open(other, app.opener));
    }
    return { line, bar, size: Math.abs(now) };
  }

  scaleBars(rows) {
    const largest = Math.max(...rows.map((row) => row.size)) || 1;
    for (const row of rows) row.bar.style.width = `${Math.round((100 * row.size) / largest) / 2}%`;
  }
}
