// The machine unrolled in layers: columns of the table on the left, outputs on the right.

class Drawing {
  constructor(app) {
    this.app = app;
    this.host = document.getElementById("machine-drawing");
    this.note = document.getElementById("machine-note");
    this.tip = document.getElementById("machine-tip");
    this.all = false;
    this.focused = null;
    this.host.addEventListener("keydown", (event) => this.onKey(event));
    this.host.addEventListener("pointerleave", () => this.show(null));
    this.host.addEventListener("scroll", () => this.hint());
    let width = 0;
    new ResizeObserver(() => {
      if (this.host.clientWidth !== width) this.draw();
      width = this.host.clientWidth;
    }).observe(this.host);
  }

  draw() {
    const { data, machine } = this.app;
    const width = Math.max(NARROWEST, this.host.clientWidth);
    const { all, drawn } = chosenEdges(data, machine, this.all ? Infinity : MAX_DRAWN);
    this.edges = drawn;
    this.layout = arranged(data, machine, drawn, width);
    const { x, y, height } = this.layout;
    this.scale = Math.min(1, Math.max(SMALLEST, this.host.clientWidth / width));
    this.picture = svg("svg", {
      width: Math.floor(width * this.scale),
      height: Math.ceil(height * this.scale),
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label":
        `The machine: ${plural(all.length, "edge", "edges")} from columns on the left to predictions on the ` +
        "right. Arrow keys move between nodes, Enter opens one.",
    });
    const lines = svg("g", { class: "edges" });
    for (const edge of [...drawn].reverse()) {
      const [x1, y1, x2, y2] = [x.get(edge.source), y.get(edge.source), x.get(edge.target), y.get(edge.target)];
      const bend = (x2 - x1) * 0.45;
      const path = `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
      edge.line = svg("path", {
        d: path,
        class: `edge ${edge.weight < 0 ? "negative" : "positive"}`,
        "stroke-width": (0.8 + 6 * edge.size ** 0.8).toFixed(2),
      });
      const area = svg("path", { d: path, class: "edge-area" });
      area.addEventListener("pointerenter", (event) => this.showEdge(edge, event));
      area.addEventListener("pointerleave", () => this.show(null));
      lines.append(edge.line, area);
    }
    this.picture.append(lines);
    this.nodes = new Map();
    for (const group of this.layout.groups) this.drawGroup(group);
    for (const layer of this.layout.hidden) for (const value of layer) this.drawHidden(value);
    machine.outputs.forEach((value, place) => this.drawOutput(value, place));
    if (!this.nodes.has(this.focused)) this.focused = this.nodes.keys().next().value;
    this.nodes.get(this.focused)?.box.setAttribute("tabindex", "0");
    const hadFocus = this.host.contains(document.activeElement);
    this.host.replaceChildren(this.picture);
    this.hint();
    if (hadFocus) this.nodes.get(this.focused)?.box.focus();
    document.querySelector("#machine .legend-tile").hidden = !this.layout.tiled || !this.layout.hidden.length;
    this.tellLimit(all.length, drawn.length);
    this.update();
    this.show(this.app.selected);
  }

  // Shadows where the drawing continues beyond its frame.
  hint() {
    const { scrollLeft, scrollWidth, clientWidth } = this.host;
    const { classList } = this.host.parentElement;
    classList.toggle("more-left", scrollLeft > 1);
    classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 1);
  }

  tellLimit(nAll, nDrawn) {
    this.note.replaceChildren();
    const nBiases = this.app.data.sizes[this.app.size].edges - nAll;
    const biases =
      nBiases > 0
        ? `${plural(nBiases, "edge is a bias and is not drawn", "edges are biases and are not drawn")}; ` +
          "select a unit to see its bias. "
        : "";
    this.note.append(biases);
    if (nAll <= MAX_DRAWN) return;
    const button = element("button", { type: "button" }, this.all ? `Show the ${MAX_DRAWN} strongest` : "Show all");
    button.addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
      this.note.querySelector("button")?.focus();
    });
    const text = this.all
      ? `All ${nAll.toLocaleString("en")} other edges are drawn. `
      : `Of the other ${nAll.toLocaleString("en")} edges, the ${nDrawn} strongest are drawn, with their nodes. `;
    this.note.append(text, button);
  }

  node(value, kind, ...children) {
    const box = svg("g", { class: `node ${kind}`, role: "button", tabindex: "-1", "data-value": value }, ...children);
    box.addEventListener("pointerenter", (event) => this.showNode(value, event));
    box.addEventListener("pointerleave", () => this.show(null));
    box.addEventListener("focus", () => {
      this.nodes.get(this.focused)?.box.setAttribute("tabindex", "-1");
      this.focused = value;
      box.setAttribute("tabindex", "0");
      this.showNode(value, null);
    });
    box.addEventListener("blur", () => this.show(null));
    box.addEventListener("click", () => this.app.open(value, box));
    this.picture.append(box);
    const own = { box, kind, dot: box.querySelector(".dot"), text: box.querySelector(".value") };
    this.nodes.set(value, own);
    return own;
  }

  drawGroup(group) {
    const { data } = this.app;
    const column = data.columns[group.column];
    const card = svg("rect", { class: "card", x: 1, y: group.top, width: CARD.left - 1, height: group.height, rx: 7 });
    const title = svg("text", { class: "name", x: 11, y: group.top + 4 + CARD.row / 2 });
    const value = svg("text", { class: "value", x: CARD.left - 20, y: group.top + 4 + CARD.row / 2 });
    title.append(shortened(column.name, 16));
    this.picture.append(card);
    if (!group.single) this.picture.append(title, value);
    group.value = value;
    group.members.forEach((place) => {
      const y = this.layout.y.get(place);
      const parts = [
        svg("rect", {
          class: "area",
          x: 2,
          y: y - CARD.row / 2 + 1,
          width: CARD.left - 2,
          height: CARD.row - 2,
          rx: 6,
        }),
      ];
      if (group.single) parts.push(title, value);
      else {
        const detail = svg("text", { class: "detail", x: CARD.left - 20, y });
        detail.append(shortened(data.inputs[place].detail || "value", 27));
        parts.push(detail);
      }
      parts.push(svg("circle", { class: "dot", cx: CARD.left, cy: y, r: 6.5 }));
      this.node(place, "input", ...parts);
    });
  }

  drawTile(value) {
    const [x, y] = [this.layout.x.get(value), this.layout.y.get(value)];
    const box = { x: x - TILE.width / 2, y: y - TILE.height / 2, width: TILE.width, height: TILE.height, rx: 7 };
    const [curve, here] = [svg("path", { class: "mini" }), svg("circle", { class: "mini-now", r: 3.2 })];
    const caption = svg("text", { class: "caption", x, y: y + TILE.height / 2 + 9 });
    const own = this.node(
      value,
      "hidden",
      svg("rect", { class: "back", ...box }),
      svg("rect", { class: "dot", ...box }),
      curve,
      here,
      caption,
    );
    Object.assign(own, { curve, here, caption, x, y });
  }

  // The curve in a tile: the value over the range of the column that moves it most, with a dot at the row.
  updateTile(value, own, found) {
    const best = strongestProfile(found, value);
    const name = this.app.nodeName(value);
    own.caption.textContent =
      shortened(name, 9) +
      (best ? ` · ${shortened(this.app.data.columns[best.place].name, this.layout.tight ? 8 : 13)}` : "");
    own.here.style.display = best ? "" : "none";
    own.curve.setAttribute("d", "");
    if (!best) return;
    const [width, height] = [TILE.width - 14, TILE.height - 12];
    const low = Math.min(...best.numbers);
    const x = (share) => own.x - width / 2 + width * Math.max(0, Math.min(1, share));
    const y = (number) => own.y + height / 2 - height * Math.max(0, Math.min(1, (number - low) / best.width));
    const last = best.numbers.length - 1;
    const stepped = isStepped(this.app.data.columns[best.place]);
    const points = best.numbers.map((number, i) => {
      if (!stepped) return `${x(i / last).toFixed(1)},${y(number).toFixed(1)}`;
      const [left, right] = [x(i / (last + 1)), x((i + 1) / (last + 1))];
      return `${left.toFixed(1)},${y(number).toFixed(1)}L${right.toFixed(1)},${y(number).toFixed(1)}`;
    });
    own.curve.setAttribute("d", `M${points.join("L")}`);
    const cell = this.app.cells[best.place];
    const [first, end] = [best.sweep[0], best.sweep[last]];
    const share = stepped ? (best.sweep.indexOf(cell) + 0.5) / (last + 1) : (cell - first) / (end - first || 1);
    if (cell === null || (stepped && !best.sweep.includes(cell))) own.here.style.display = "none";
    own.here.setAttribute("cx", x(share));
    own.here.setAttribute("cy", y(this.app.values[value]));
  }

  drawHidden(value) {
    if (this.layout.tiled) {
      this.drawTile(value);
      return;
    }
    const [x, y] = [this.layout.x.get(value), this.layout.y.get(value)];
    const text = shortened(this.app.nodeName(value), 6);
    const name = svg("text", { class: `unit${text.length > 4 ? " longest" : text.length > 3 ? " long" : ""}`, x, y });
    name.append(text);
    this.node(
      value,
      "hidden",
      svg("circle", { class: "back", cx: x, cy: y, r: HIDDEN.radius }),
      svg("circle", { class: "dot", cx: x, cy: y, r: HIDDEN.radius }),
      name,
    );
  }

  drawOutput(value, place) {
    const [x, y] = [this.layout.x.get(value), this.layout.y.get(value)];
    const width = CARD.right - 2;
    const many = this.app.machine.outputs.length > OUTPUT.most;
    const card = { x, y: y - (many ? 13 : 23), height: many ? 26 : 46, rx: 7 };
    const name = svg("text", { class: "name", x: x + 20, y: many ? y : y - 9 });
    name.append(shortened(this.app.outputName(place), many ? 14 : 20));
    const number = svg("text", {
      class: many ? "value end" : "value",
      x: many ? x + width - 8 : x + 20,
      y: many ? y : y + 11,
    });
    const bar = svg("rect", { class: "share", ...card, width: 0 });
    const own = this.node(
      value,
      "output",
      svg("rect", { class: "card area", ...card, width }),
      bar,
      name,
      number,
      svg("circle", { class: "back", cx: x, cy: y, r: 8 }),
      svg("circle", { class: "dot", cx: x, cy: y, r: 8 }),
    );
    Object.assign(own, { bar, width, place });
  }

  // What changes with the row: values, which nodes are active, and what edges carry.
  update() {
    const { data, values, cells, prediction } = this.app;
    for (const group of this.layout.groups) {
      // Name and value share a line of 22 characters.
      const column = data.columns[group.column];
      const left = 22 - Math.min(16, Array.from(column.name).length);
      group.value.textContent = shortened(shownCell(column, cells[group.column]), left);
    }
    const most = new Map();
    for (const edge of this.edges) {
      edge.carried = Math.abs(edge.weight * values[edge.source]);
      most.set(edge.layer, Math.max(most.get(edge.layer) ?? 0, edge.carried));
    }
    for (const edge of this.edges) {
      const share = edge.carried / (most.get(edge.layer) || 1);
      edge.line.style.setProperty("--strength", (edge.carried === 0 ? 0.13 : 0.34 + 0.56 * share ** 0.6).toFixed(3));
    }
    const sizes = new Map();
    for (const [value, own] of this.nodes)
      sizes.set(own.kind, Math.max(sizes.get(own.kind) ?? 0, Math.abs(values[value])));
    const found = this.layout.tiled ? profiles(this.app, 31) : [];
    for (const [value, own] of this.nodes) {
      const number = values[value];
      if (own.curve) this.updateTile(value, own, found);
      const share = Math.abs(number) / (sizes.get(own.kind) || 1);
      own.box.classList.toggle("off", number === 0);
      own.box.classList.toggle("below", number < 0);
      own.dot.style.setProperty("--share", (number === 0 ? 0 : 0.25 + 0.75 * share).toFixed(3));
      own.box.setAttribute("aria-label", this.app.nodeText(value));
      if (own.kind === "output") {
        const { text, share: filled } = this.app.outputText(own.place, prediction, values);
        own.text.textContent = text;
        own.bar.setAttribute("width", filled === null ? 0 : Math.max(0, filled * own.width));
      }
    }
  }

  // Highlight what leads to a node and what follows from it; null: what is selected, or nothing.
  show(value) {
    const shown = value ?? this.app.selected;
    const known = shown !== null && this.nodes.has(shown);
    this.picture.classList.toggle("focused", known);
    this.tip.hidden = true;
    if (!known) return;
    const marked = new Set([shown]);
    const lines = new Set();
    for (const [from, to] of [
      ["target", "source"],
      ["source", "target"],
    ]) {
      const reached = [shown];
      const seen = new Set(reached);
      while (reached.length) {
        const here = reached.pop();
        for (const edge of this.edges) {
          if (edge[from] !== here) continue;
          lines.add(edge);
          marked.add(edge[to]);
          if (!seen.has(edge[to])) reached.push(edge[to]);
          seen.add(edge[to]);
        }
      }
    }
    for (const edge of this.edges) edge.line.classList.toggle("marked", lines.has(edge));
    for (const [own, { box }] of this.nodes) box.classList.toggle("marked", marked.has(own));
  }

  showNode(value, event) {
    this.show(value);
    this.tell(event, this.layout.x.get(value), this.layout.y.get(value), this.app.nodeLines(value));
  }

  showEdge(edge, event) {
    this.picture.classList.add("focused");
    for (const own of this.edges) own.line.classList.toggle("marked", own === edge);
    for (const [value, { box }] of this.nodes)
      box.classList.toggle("marked", value === edge.source || value === edge.target);
    const middle = (from) => (from.get(edge.source) + from.get(edge.target)) / 2;
    this.tell(event, middle(this.layout.x), middle(this.layout.y), this.app.edgeLines(edge));
  }

  // The edge between two nodes, if it is drawn; the panel points at it.
  pointAt(source, target) {
    const edge = this.edges.find((own) => own.source === source && own.target === target);
    if (edge) this.showEdge(edge, null);
  }

  tell(event, x, y, lines) {
    const [title, ...more] = lines;
    this.tip.replaceChildren(element("strong", {}, title), ...more.map((line) => element("span", {}, line)));
    this.tip.hidden = false;
    const frame = this.tip.parentElement.getBoundingClientRect();
    const left = event ? event.clientX - frame.left : x * this.scale - this.host.scrollLeft;
    const top = event ? event.clientY - frame.top : y * this.scale - this.host.scrollTop;
    const width = this.tip.offsetWidth;
    const below = top + 18 + this.tip.offsetHeight < this.host.clientHeight;
    this.tip.style.left = `${Math.max(4, Math.min(left + 14, frame.width - width - 4))}px`;
    this.tip.style.top = `${Math.max(4, below ? top + 18 : top - this.tip.offsetHeight - 18)}px`;
  }

  onKey(event) {
    const box = event.target.closest(".node");
    if (!box) return;
    const value = Number(box.dataset.value);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.app.open(value, box);
      return;
    }
    if (event.key === "Escape") this.tip.hidden = true;
    const next = this.neighbour(value, event.key);
    if (next === undefined) return;
    event.preventDefault();
    this.nodes.get(next).box.focus();
  }

  // The node that an arrow key leads to: the next one of the layer, or the nearest one of the next layer.
  neighbour(value, key) {
    const { groups, hidden, y } = this.layout;
    const layers = [groups.flatMap((group) => group.members), ...hidden, this.app.machine.outputs].filter(
      (own) => own.length,
    );
    const layer = layers.findIndex((own) => own.includes(value));
    const sorted = [...layers[layer]].sort((a, b) => y.get(a) - y.get(b));
    const place = sorted.indexOf(value);
    if (key === "ArrowDown") return sorted[place + 1];
    if (key === "ArrowUp") return sorted[place - 1];
    const other = layers[layer + (key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : NaN)];
    return other && [...other].sort((a, b) => Math.abs(y.get(a) - y.get(value)) - Math.abs(y.get(b) - y.get(value)))[0];
  }
}
