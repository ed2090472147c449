// SPDX-License-Identifier: Apache-2.0
// What the scripts of all pages share: canvases with axes, tables, and texts of times.
"use strict";
const graphs = (function () {
  const MARGIN = { left: 70, right: 30, top: 10, bottom: 30 };
  const byId = (id) => document.getElementById(id);

  function timeText(ns) {
    if (ns === 0) return "0";
    const size = Math.abs(ns);
    if (size < 1e3) return ns.toFixed(0) + " ns";
    if (size < 1e6) return (ns / 1e3).toPrecision(4) + " us";
    if (size < 1e9) return (ns / 1e6).toPrecision(4) + " ms";
    return (ns / 1e9).toPrecision(6) + " s";
  }

  // A canvas in the pixels of the screen, and its inner size.
  function area(id) {
    const canvas = byId(id);
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px sans-serif";
    return { pen, width, height };
  }

  // Draws the axes; what is drawn next is cut at them, until pen.restore().
  function axes(at, xScale, yScale, xText, yText) {
    const { pen, width, height } = at;
    pen.strokeStyle = "#ddd";
    pen.fillStyle = "#555";
    pen.lineWidth = 1;
    pen.beginPath();
    pen.textAlign = "center";
    for (const tick of xScale.ticks(6)) {
      const px = Math.round(xScale(tick)) + 0.5;
      pen.moveTo(px, MARGIN.top);
      pen.lineTo(px, height - MARGIN.bottom);
      pen.fillText(xText(tick), px, height - MARGIN.bottom + 15);
    }
    pen.textAlign = "right";
    for (const tick of yScale.ticks(5)) {
      const py = Math.round(yScale(tick)) + 0.5;
      pen.moveTo(MARGIN.left, py);
      pen.lineTo(width - MARGIN.right, py);
      pen.fillText(yText(tick), MARGIN.left - 6, py + 4);
    }
    pen.stroke();
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN.left, 0, width - MARGIN.left - MARGIN.right, height - MARGIN.bottom + 1);
    pen.clip();
  }

  // A logarithmic scale with at most some six ticks.
  function logScale(from, to, width) {
    const scale = d3.scale.log().domain([from, to]).range([MARGIN.left, width - MARGIN.right]);
    const few = { ticks: () => scale.ticks(4).filter((t, i, all) => i % Math.ceil(all.length / 6) === 0) };
    return Object.assign((v) => scale(v), few, { invert: (p) => scale.invert(p) });
  }

  function cell(row, text, name) {
    const td = document.createElement("td");
    td.textContent = text;
    if (name) td.className = name;
    row.appendChild(td);
  }

  function heads(table, names) {
    table.textContent = "";
    const row = table.insertRow();
    for (const name of names) {
      const th = document.createElement("th");
      th.textContent = name;
      row.appendChild(th);
    }
  }

  // A legend: pairs of a name and a colour.
  function legend(id, entries) {
    byId(id).textContent = "";
    for (const [name, color] of entries) {
      const item = document.createElement("span");
      const box = document.createElement("i");
      box.style.background = color;
      item.appendChild(box);
      item.appendChild(document.createTextNode(name));
      byId(id).appendChild(item);
    }
  }

  // A line over time: at most two points for each pixel, the least and the most of its values.
  function drawLine(at, time, scale, line, times) {
    const { pen } = at;
    pen.strokeStyle = line.color;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let column = null, low = 0, high = 0;
    const flush = () => {
      if (column === null) return;
      pen.lineTo(column, scale(low));
      if (high !== low) pen.lineTo(column, scale(high));
    };
    line.values.forEach((value, i) => {
      const px = Math.round(time(times[i]));
      if (px !== column) {
        flush();
        column = px;
        low = high = value;
      }
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
    flush();
    pen.stroke();
  }

  // A graph of lines, each with a name, a colour and a value for each of the times (ns); `x` has
  // the domain of what is in sight.
  function lines(id, its, x, times, text) {
    const at = area(id);
    const time = d3.scale.linear().domain(x.domain()).range([MARGIN.left, at.width - MARGIN.right]);
    const [from, to] = x.domain().map((ns) => d3.bisectLeft(times, ns));
    const most = d3.max(its, (line) => d3.max(line.values.slice(Math.max(0, from - 1), to + 1))) || 1;
    const scale = d3.scale.linear().domain([0, most * 1.05]).range([at.height - MARGIN.bottom, MARGIN.top]);
    axes(at, time, scale, timeText, text);
    for (const line of its) drawLine(at, time, scale, line, times);
    at.pen.restore();
  }

  // Shows the values of the lines, which `linesOf` gives, at the time under the pointer.
  function hover(id, linesOf, x, times, text) {
    const canvas = byId(id), label = byId(id + "-hover");
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const px = event.clientX - box.left, ns = x.invert(px);
      const behind = d3.bisectLeft(times, ns);
      const index = behind > 0 && ns - times[behind - 1] < times[behind] - ns ? behind - 1 : behind;
      label.hidden = !linesOf().some((line) => line.values[index] !== undefined);
      if (label.hidden) return;
      label.textContent = [timeText(times[index])].concat(
        linesOf().map((line) => line.name + ": " + text(line.values[index]))).join("\n");
      label.style.left = Math.min(px + 12, box.width - 260) + "px";
      label.style.top = "12px";
    });
    canvas.addEventListener("mouseleave", () => { label.hidden = true; });
  }

  const report = JSON.parse(byId("report").textContent);
  return { MARGIN, byId, timeText, area, axes, logScale, cell, heads, legend, lines, hover, report };
})();
