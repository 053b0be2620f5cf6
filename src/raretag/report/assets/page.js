"use strict";
// Tabs, the choice of a run, sorting, and charts that are drawn when they are first seen.
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const tabs = all('[role="tab"]');
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Charts
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = (given) => {
    const found = { gridcolor: colour("--line"), zerolinecolor: colour("--quiet"), linecolor: colour("--line"), automargin: true, ...given };
    return { ...found, title: { font: { size: 12.5 }, standoff: 8, ...given.title }, fixedrange: false };
  };
  const layout = (given) => ({
    margin: { l: 50, r: 12, t: 10, b: 42 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 12, color: colour("--ink") },
    hoverlabel: { namelength: 40 }, hovermode: "closest", dragmode: "pan",
    ...given,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    xaxis: axis(given.xaxis || {}), yaxis: axis(given.yaxis || {}),
    shapes: (given.shapes || []).map((shape) => ({ ...shape, line: { ...shape.line, color: colour("--quiet") } })),
  });
  const ready = () => { // plotly is large: it is read when the first chart is seen, so that the page opens at once
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  };
  const draw = (place, chart) => {
    ready();
    const data = dark.matches ? JSON.parse(JSON.stringify(chart.data).replaceAll("#0072B2", "#4aa8e0")) : chart.data;
    Plotly.react(place, data, layout(chart.layout), { responsive: true, displayModeBar: false, scrollZoom: false });
  };
  const seen = (place) => place.offsetParent !== null;
  const drawSeen = (again) => all("[data-chart]").forEach((place) => {
    const chart = content.charts[place.dataset.chart];
    if (!chart || !seen(place)) return;
    if (again || !place.dataset.drawn) draw(place, chart);
    else Plotly.Plots.resize(place);
    place.dataset.drawn = "yes";
  });

  // Precision and recall of one label
  const chooser = document.getElementById("curve-label");
  const drawCurve = () => {
    const place = document.getElementById("curve");
    if (!chooser || !seen(place)) return;
    const data = content.runs.filter((run) => run.curves[chooser.value]).map((run) => {
      const [recall, precision, threshold] = run.curves[chooser.value];
      return {
        type: "scatter", mode: "lines+markers", name: run.name, x: recall, y: precision, customdata: threshold,
        line: { color: run.colour, width: 2 }, marker: { size: 4 },
        hovertemplate: "recall %{x:.2f}<br>precision %{y:.2f}<br>threshold %{customdata:.3f}",
      };
    });
    draw(place, { data, layout: {
      showlegend: true,
      xaxis: { title: { text: "recall" }, range: [0, 1.02] }, yaxis: { title: { text: "precision" }, range: [0, 1.03] },
    } });
  };
  if (chooser) {
    const having = content.labels.map((name, label) => [name, String(label)]).filter(([, label]) => content.runs.some((run) => run.curves[label]));
    having.sort((a, b) => a[0].localeCompare(b[0], "en"));
    having.forEach(([name, label]) => chooser.add(new Option(name, label)));
    chooser.addEventListener("change", drawCurve);
  }

  // Tabs
  const show = (name, focus) => {
    tabs.forEach((tab) => {
      const on = tab.getAttribute("aria-controls") === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !on;
      if (on) {
        if (focus) tab.focus();
        const bar = tab.parentElement;
        if (tab.offsetLeft < bar.scrollLeft || tab.offsetLeft + tab.offsetWidth > bar.scrollLeft + bar.clientWidth) bar.scrollLeft = tab.offsetLeft - 40;
      }
    });
    drawSeen(false);
    drawCurve();
  };
  const named = () => {
    const name = location.hash.slice(1);
    return tabs.some((tab) => tab.getAttribute("aria-controls") === name) ? name : tabs[0].getAttribute("aria-controls");
  };
  const go = (name, focus) => {
    history.replaceState(null, "", "#" + name);
    show(name, focus);
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => go(tab.getAttribute("aria-controls"), false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      go(tabs[(step + tabs.length) % tabs.length].getAttribute("aria-controls"), true);
    });
  });
  window.addEventListener("hashchange", () => show(named(), false));

  // Which run
  const run = document.getElementById("run");
  if (run) run.addEventListener("change", () => {
    all(".of-run").forEach((part) => { part.hidden = part.dataset.run !== run.value; });
    drawSeen(false);
  });

  // Sorting: numbers from high to low first, words from a to z; what is not known always comes last.
  all("table.sortable").forEach((table) => {
    const heads = all("thead th", table);
    const body = table.tBodies[0];
    const key = (row, column) => {
      const cell = row.cells[column];
      if (cell.dataset.key === undefined) return cell.textContent.trim().toLowerCase();
      return cell.dataset.key === "" ? null : Number(cell.dataset.key);
    };
    heads.forEach((head, column) => {
      const numeric = body.rows.length > 0 && body.rows[0].cells[column].dataset.key !== undefined;
      head.querySelector("button").addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const rising = before ? before === "descending" : !numeric;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const rows = Array.from(body.rows);
        rows.sort((a, b) => {
          const [x, y] = [key(a, column), key(b, column)];
          if (x === null || y === null) return (x === null) - (y === null);
          const order = typeof x === "number" ? x - y : x.localeCompare(y, "en");
          return rising ? order : -order;
        });
        body.append(...rows);
      });
    });
  });

  // Finding a label, and going from a label to its curve
  all("input[data-filter]").forEach((input) => input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    all("#" + input.dataset.filter + " tbody tr").forEach((row) => {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
  }));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-label]");
    if (!button || !chooser || !all("option", chooser).some((option) => option.value === button.dataset.label)) return;
    chooser.value = button.dataset.label;
    go("curves", true);
  });

  dark.addEventListener("change", () => {
    all("[data-chart]").forEach((place) => { delete place.dataset.drawn; });
    drawSeen(true);
    drawCurve();
  });
  show(named(), false);
})();
