// SPDX-License-Identifier: Apache-2.0
// Draws the counters of a daemon: rates between looks, and what they came to.
"use strict";
(function () {
  const { byId, timeText, cell, heads, report } = graphs;
  const looks = report.looks;
  const COLORS = d3.scale.category10().range();
  const MOST_LINES = 9;
  const BITS = [["sent", "port_xmit_bytes"], ["received", "port_rcv_bytes"]];
  // What goes up with traffic says nothing of trouble.
  const TRAFFIC = /_(bytes|packets|requests)$/;
  const x = d3.scale.linear();
  const zoom = d3.behavior.zoom().scaleExtent([1, 1e5]).on("zoom", draw);
  const times = looks.map((look) => look.ns - looks[0].ns);
  const rateText = (bps) => d3.format(".3s")(bps) + "b/s";
  const countText = (count) => d3.format(".3s")(count) + "/s";
  let rates = [], events = [];

  // What goes up and down is no counter.
  const GAUGES = ["queue_pairs", "rate_bps", "delay_ns", "queue_bytes", "peak_queue_bytes"];

  // The counters of a device in a look, those of its faults and of its link with the name of their
  // group; a daemon may lose a device and get another one.
  function countersOf(look) {
    const found = look.stat.devices.find((device) => device.name === byId("device").value) || {};
    const counters = {};
    for (const [group, its] of Object.entries(found)) {
      if (its === null || typeof its !== "object" || Array.isArray(its)) continue;
      for (const [name, value] of Object.entries(its)) {
        if (typeof value !== "number" || GAUGES.includes(name)) continue;
        counters[group === "counters" ? name : group + "." + name] = value;
      }
    }
    return counters;
  }

  // By how much a counter rose to the look; one that fell is of a daemon that began again.
  function riseTo(i, name) {
    const now = countersOf(looks[i])[name] || 0, before = countersOf(looks[i - 1])[name] || 0;
    return now < before ? now : now - before;
  }

  function line(label, color, name, factor) {
    const values = looks.map((_, i) => i === 0 ? 0 : riseTo(i, name) * factor * 1e9 / Math.max(1, times[i] - times[i - 1]));
    if (values.length > 1) values[0] = values[1];
    return { name: label, color, values };
  }

  function draw() {
    if (looks.length < 2) return;
    graphs.lines("rate", rates, x, times, rateText);
    graphs.lines("events", events, x, times, countText);
  }

  function show() {
    if (looks.length < 2) return;
    x.domain([0, Math.max(1, times[times.length - 1])]).range([graphs.MARGIN.left, byId("rate").clientWidth - graphs.MARGIN.right]);
    zoom.x(x);
    for (const id of ["rate", "events"]) d3.select("#" + id).call(zoom);
    draw();
  }

  function rise(name) {
    return looks.reduce((sum, _, i) => i === 0 ? 0 : sum + riseTo(i, name), 0);
  }

  function showTable(names) {
    const seconds = times[times.length - 1] / 1e9;
    const table = byId("counters"), last = countersOf(looks[looks.length - 1]);
    heads(table, looks.length < 2 ? ["Counter", "Value"] : ["Counter", "Value", "Rose by", "Each second"]);
    for (const name of names) {
      const row = table.insertRow();
      cell(row, name);
      cell(row, last[name]);
      if (looks.length < 2) continue;
      const rose = rise(name);
      cell(row, rose === 0 ? "" : rose);
      cell(row, rose === 0 ? "" : (rose / seconds).toPrecision(4));
    }
  }

  function choose() {
    const last = countersOf(looks[looks.length - 1]);
    const names = Object.keys(last).filter((name) => last[name] !== 0);
    rates = BITS.map(([label, name], i) => line(label, COLORS[i], name, 8));
    const told = names.filter((name) => !TRAFFIC.test(name) && rise(name) !== 0);
    told.sort((a, b) => rise(b) - rise(a));
    events = told.slice(0, MOST_LINES).map((name, i) => line(name, COLORS[i], name, 1));
    graphs.legend("rate-legend", rates.map((one) => [one.name, one.color]));
    graphs.legend("events-legend", events.length === 0 ? [["nothing but traffic", "#ddd"]] : events.map((one) => [one.name, one.color]));
    showTable(names);
    show();
  }

  byId("title").textContent = "uroce stat";
  byId("files").textContent = looks[looks.length - 1].stat.timestamp + (looks.length < 2 ? "" :
    ", " + looks.length + " looks in " + timeText(times[times.length - 1]));
  byId("changes").hidden = looks.length < 2;
  for (const device of looks[looks.length - 1].stat.devices) {
    const option = document.createElement("option");
    option.textContent = option.value = device.name;
    byId("device").appendChild(option);
  }
  byId("device").onchange = choose;
  byId("reset").onclick = show;
  window.addEventListener("resize", draw);
  choose();
  graphs.hover("rate", () => rates, x, times, rateText);
  graphs.hover("events", () => events, x, times, countText);
  document.body.setAttribute("data-drawn", "yes");
})();
