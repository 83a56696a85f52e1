// A live look at counts while they are typed. The server checks everything again: this only helps to notice a slip.
"use strict";

const number = (text) => (text.trim() === "" ? null : Number(text.trim().replace(",", ".")));

// Words are compared as the server compares them: without case, dots at the end, and hyphens between their parts.
const plain = (text) => text.toLowerCase().replace(/[\u2010-\u2015\u2212]/g, "-").replace(/[_\s]+/g, " ").trim()
  .replace(/\.+$/, "").replace(/(\w) ?- ?(?=\w)/g, "$1 ");

// What is written where nothing was detected, of an assay that reports cycle thresholds or amounts.
const nothing = new Set((document.getElementById("typed")?.dataset.nothing || "").split("|").filter(Boolean));

// What counts are numbers of: samples, copies or reads.
const unit = document.getElementById("typed")?.dataset.unit || "samples";
// What the boxes are for: pools, or counts where each pool has several.
const noun = document.getElementById("typed")?.dataset.noun || "pools";

function fault(box, whole, words) {
  const value = number(box.value);
  if (value === null || words.has(plain(box.value)) || nothing.has(plain(box.value))) return "";
  if (words.size > 0 && value !== 0 && value !== 1) return "is neither 1 or 0 nor positive or negative";
  if (!Number.isFinite(value)) return "is not a number";
  if (whole && !Number.isInteger(value)) return "is not a whole number";
  const size = Number(box.dataset.size);
  if (whole && value > size) return `is more than its ${size} ${unit}`;
  return "";
}

function look(plate, weight, whole, words) {
  const boxes = [...plate.querySelectorAll(".count")];
  const check = plate.querySelector(".check");
  let filled = 0, sum = 0, said = "";
  for (const box of boxes) {
    const wrong = fault(box, whole, words);
    box.classList.toggle("odd", wrong !== "");
    box.classList.toggle("filled", wrong === "" && box.value.trim() !== "");
    box.setAttribute("aria-invalid", wrong !== "");
    if (wrong !== "" && said === "") said = `${box.parentElement.firstElementChild.textContent} ${wrong}.`;
    if (box.value.trim() !== "") filled += 1;
    if (wrong === "" && words.size === 0) sum += number(box.value) || 0;
  }
  check.classList.toggle("odd", said !== "");
  const total = words.size === 0 && nothing.size === 0 ? `; sum ${Number(sum.toFixed(6))}` : "";
  const parts = [`${filled} of ${boxes.length} ${noun} filled in${total}.`];
  if (said === "" && filled === boxes.length && weight > 0 && whole) parts.push(positives(sum, weight));
  check.textContent = (said === "" ? parts : [said, ...parts]).join(" ");
}

// Every sample is in the same number of pools, so without errors the counts sum to a multiple of it.
function positives(sum, weight) {
  if (sum % weight === 0) return `That is ${sum / weight} times ${weight}, as ${sum / weight} positive samples would give.`;
  return `That is no multiple of ${weight}, the pools of each sample: some count may be off. Check the sheet once more.`;
}

function next(boxes, box, form) {
  const after = boxes[boxes.indexOf(box) + 1];
  (after ?? form.querySelector("button")).focus();
  if (after) after.select();
}

const form = document.getElementById("typed");
if (form) {
  const weight = Number(form.dataset.weight), whole = form.dataset.whole === "1";
  const words = new Set(form.dataset.words ? form.dataset.words.split("|") : []);
  const boxes = [...form.querySelectorAll(".count")];
  for (const plate of form.querySelectorAll(".plate-boxes")) {
    plate.addEventListener("input", () => look(plate, weight, whole, words));
    look(plate, weight, whole, words);
  }
  form.addEventListener("keydown", (event) => {
    // On a number pad Enter ends a number; it must not send a sheet that is half filled in.
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    if (boxes.includes(event.target)) next(boxes, event.target, form);
    else boxes[0].focus();
  });
}
