"use strict";
// Draws the charts of #chart-data in the page's colours, and the sortable, paged list of #trade-data.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("chart-data");
  const drawn = new Set();

  function dress(layout) {
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const narrow = document.documentElement.clientWidth < 600;
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("muted"), automargin: true };
    const dressed = {
      ...layout,
      font: { family: "system-ui, sans-serif", size: narrow ? 11 : 12, color: colour("text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: narrow ? 44 : 60, r: 8, t: 8, b: 32 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("text") } },
      dragmode: narrow ? false : "zoom",
    };
    for (const name of ["xaxis", "yaxis", "yaxis2"]) if (layout[name]) dressed[name] = { ...axis, ...layout[name] };
    return dressed;
  }

  function draw(id) {
    drawn.add(id);
    const { data, layout } = charts[id];
    return Plotly.react(id, data, dress(layout), { responsive: true, displaylogo: false, displayModeBar: false });
  }

  const hidden = (id) => document.getElementById(id).closest("details:not([open])");
  for (const id of Object.keys(charts)) if (!hidden(id)) draw(id);
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => {
      for (const chart of details.querySelectorAll(".chart")) if (!drawn.has(chart.id)) draw(chart.id);
    });
  }
  const again = () => drawn.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);

  const table = document.getElementById("trades");
  if (!table) return;
  const { headings, digits, rows } = read("trade-data");
  const size = 50;
  let order = rows.map((_, i) => i), page = 0, sorted = null, ascending = false;
  const formats = digits.map((n) => new Intl.NumberFormat("en", { minimumFractionDigits: n, maximumFractionDigits: n }));
  const shown = (value, column) => typeof value === "number" ? formats[column].format(value) : value ?? "-";

  function compare(a, b) { // numbers as numbers; what is unknown comes last either way
    if (a === null || b === null) return (a === null) - (b === null);
    const way = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
    return ascending ? way : -way;
  }

  function fill() {
    const pages = Math.ceil(rows.length / size);
    table.tBodies[0].replaceChildren(...order.slice(page * size, (page + 1) * size).map((i) => {
      const line = document.createElement("tr");
      rows[i].forEach((value, column) => {
        const cell = line.insertCell();
        const money = headings[column] === "P&L" || headings[column] === "R";
        if (money && value) cell.className = value > 0 ? "earns" : "loses";
        cell.textContent = shown(value, column);
      });
      return line;
    }));
    document.getElementById("page").textContent = `page ${page + 1} of ${pages}`;
    document.getElementById("previous").disabled = page === 0;
    document.getElementById("next").disabled = page === pages - 1;
  }

  headings.forEach((heading, column) => {
    const cell = document.createElement("th"), button = document.createElement("button");
    cell.scope = "col";
    button.type = "button";
    button.textContent = heading;
    button.addEventListener("click", () => {
      ascending = sorted === column ? !ascending : typeof rows[0][column] === "string";
      sorted = column;
      order.sort((i, j) => compare(rows[i][column], rows[j][column]) || i - j);
      for (const other of cell.parentNode.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      page = 0;
      fill();
    });
    cell.append(button);
    table.tHead.rows[0].append(cell);
  });
  document.getElementById("previous").addEventListener("click", () => { page -= 1; fill(); });
  document.getElementById("next").addEventListener("click", () => { page += 1; fill(); });
  fill();

  const download = document.getElementById("download");
  if (download) download.href = URL.createObjectURL(new Blob([read("trade-csv")], { type: "text/csv" }));
})();
