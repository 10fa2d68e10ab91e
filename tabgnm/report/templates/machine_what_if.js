// What if: a control for each column that the machine reads, and the prediction as they change.

const MAX_CLASSES = 10; // that are listed; of more, the most probable ones

class WhatIf {
  constructor(app) {
    this.app = app;
    this.form = document.getElementById("what-if-form");
    this.result = document.getElementById("what-if-result");
    this.live = document.getElementById("what-if-live");
    this.more = document.getElementById("what-if-more");
    this.curves = document.getElementById("what-if-curves");
    this.start = document.getElementById("what-if-start");
    this.fields = [];
    this.form.addEventListener("submit", (event) => event.preventDefault());
    app.rows.forEach((row, place) => this.start.append(element("option", { value: place }, row.name)));
    this.start.addEventListener("change", () => app.setRow(Number(this.start.value)));
    document.getElementById("what-if-reset").addEventListener("click", () => app.setRow(Number(this.start.value)));
  }

  // Makes the controls of the columns that the machine of this size reads.
  draw() {
    const { app } = this;
    const focused = this.form.contains(document.activeElement) ? document.activeElement.id : null;
    this.fields = app.columns.map((place) => this.field(place));
    this.form.replaceChildren(...this.fields.map((field) => field.box));
    const unused = app.data.columns.length - app.columns.length;
    this.more.textContent =
      app.columns.length === 0
        ? "This machine uses no column, so its prediction is constant."
        : unused
          ? `Other sizes of the machine use ${plural(unused, "more column", "more columns")}.`
          : "";
    if (focused) document.getElementById(focused)?.focus();
    this.update();
  }

  field(place) {
    const { app } = this;
    const column = app.data.columns[place];
    const id = `what-if-${place}`;
    const chart = element("div", { class: isStepped(column) ? "spark stepped" : "spark" });
    const set = (cell) => app.setCell(place, cell);
    const control = isStepped(column) ? this.levels(column, id, set) : this.numbers(column, id, set);
    const clear = element(
      "button",
      {
        type: "button",
        class: "clear",
        title: column.had_missing ? "Set to missing" : "Set to missing (no training row had a missing value here)",
        "aria-label": `Set ${column.name} to missing`,
      },
      "∅",
    );
    clear.addEventListener("click", () => set(null));
    const unit = column.kind === "duration" ? " (seconds)" : "";
    const label = element("label", { for: id, title: column.name }, column.name + unit);
    const line = element("div", { class: "field-line" }, control.main, clear);
    const box = element("div", { class: "field" }, label, line, chart, ...(control.slider ? [control.slider] : []));
    return { place, column, chart, box, show: control.show };
  }

  levels(column, id, set) {
    const select = element("select", { id, title: column.ordered ? "ordered levels" : null });
    const values =
      column.kind === "boolean"
        ? [
            ["1", "true"],
            ["0", "false"],
          ]
        : column.levels.map((level) => [level, level || "(empty text)"]);
    values.forEach(([value, text]) => select.append(element("option", { value }, text)));
    if (column.kind === "category") select.append(element("option", { value: UNKNOWN }, "(unknown level)"));
    select.append(element("option", { value: "" }, "(missing)"));
    // By place, not by value: a level may be any text, "" too.
    const cells = [
      ...values.map(([value]) => (column.kind === "boolean" ? Number(value) : value)),
      ...(column.kind === "category" ? [UNKNOWN] : []),
      null,
    ];
    select.addEventListener("change", () => set(cells[select.selectedIndex]));
    const show = (cell) => {
      const found = cells.indexOf(cell);
      select.selectedIndex = found >= 0 ? found : cells.indexOf(UNKNOWN);
    };
    return { main: select, show };
  }

  numbers(column, id, set) {
    const [low, high] = rangeOf(column);
    const isDate = column.kind === "datetime";
    const isTime = column.kind === "time";
    const type = isDate ? (column.has_time ? "datetime-local" : "date") : isTime ? "time" : "number";
    const input = element("input", { id, type, step: isDate ? null : isTime ? 1 : "any", placeholder: "missing" });
    const slider = element("input", {
      type: "range",
      min: low,
      max: high,
      step: isDate && !column.has_time ? 1 : (high - low) / 400,
      "aria-label": `${column.name}, slider`,
    });
    const text = (cell) =>
      isDate ? dateText(cell, column.has_time) : isTime ? timeText(cell) : String(Number(cell.toPrecision(6)));
    input.addEventListener("input", () => {
      if (input.value === "") set(null);
      else set(readCell(column, input.value));
    });
    slider.addEventListener("input", () => set(readCell(column, text(Number(slider.value)))));
    const show = (cell) => {
      if (document.activeElement !== input) input.value = cell === null ? "" : text(cell);
      slider.value = cell === null ? (low + high) / 2 : cell;
      slider.classList.toggle("missing", cell === null);
      input.setAttribute("aria-description", cell === null ? "missing" : "");
      if (!isDate && !isTime) slider.setAttribute("aria-valuetext", shownCell(column, cell));
    };
    return { main: input, slider, show };
  }

  update() {
    const { app } = this;
    const { text, number } = app.curveOf();
    const others =
      app.machine.outputs.length > 1 ? " To see the curves of another output, select it in the drawing above." : "";
    this.curves.textContent = `The small curves show the ${text} over each column, with the other values unchanged.${others}`;
    const responses = this.fields.map((field) => response(app, field.place, 25, number));
    const extent = responses.length ? extentOf(responses) : [0, 1];
    this.fields.forEach((field, i) => {
      field.show(app.cells[field.place]);
      field.chart.title = `The ${text} over ${field.column.name}, other values unchanged`;
      field.chart.replaceChildren(responseChart(field.column, responses[i], extent, { width: 240, height: 40 }));
    });
    this.showPrediction();
  }

  showPrediction() {
    const { app } = this;
    const { numbers, probabilities } = app.prediction;
    const parts = [];
    if (numbers) {
      numbers.forEach((value, i) => {
        const before = app.startPrediction.numbers[i];
        const change = value - before;
        parts.push(
          element(
            "div",
            { class: "prediction" },
            element("span", { class: "name" }, app.outputName(i)),
            element("strong", {}, shownNumber(value)),
            element(
              "span",
              { class: "muted" },
              Math.abs(change) < 1e-9 ? "unchanged" : `${signed(change)} compared with the start (${shownNumber(before)})`,
            ),
          ),
        );
      });
    } else {
      probabilities.forEach((part, target) => {
        if (probabilities.length > 1 || app.data.targets.length) parts.push(element("h4", {}, app.targetName(target)));
        const order = part.map((_, i) => i);
        if (part.length > MAX_CLASSES) order.sort((a, b) => part[b] - part[a]).splice(MAX_CLASSES);
        order.forEach((i) => {
          const value = part[i];
          const isLabel = value === Math.max(...part);
          const bar = element("span", { class: "fill" });
          bar.style.width = `${100 * value}%`;
          const mark = element("span", { class: "before", title: "value at the start" });
          mark.style.left = `${100 * app.startPrediction.probabilities[target][i]}%`;
          parts.push(
            element(
              "div",
              { class: `probability${isLabel ? " largest" : ""}` },
              element("span", { class: "name" }, `${isLabel ? "▸ " : ""}${app.data.classes[target][i]}`),
              element("span", { class: "share" }, shownShare(value)),
              element("span", { class: "track" }, bar, mark),
            ),
          );
        });
        const rest = 1 - order.reduce((sum, i) => sum + part[i], 0);
        if (order.length < part.length)
          parts.push(
            element(
              "p",
              { class: "muted" },
              `${part.length - order.length} other classes: ${shownShare(Math.max(0, rest))}`,
            ),
          );
      });
    }
    this.result.replaceChildren(...parts);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.live.textContent = `Prediction: ${app.predictionText()}`;
    }, 300);
  }
}
