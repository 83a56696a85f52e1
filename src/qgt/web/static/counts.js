// A live look at counts while they are typed. The server checks everything again: this only helps to notice a slip.
"use strict";

const number = (text) => (text.trim() === "" ? null : Number(text.trim().replace(",", ".")));

function fault(box, whole) {
  const value = number(box.value);
  if (value === null) return "";
  if (!Number.isFinite(value)) return "is not a number";
  if (whole && !Number.isInteger(value)) return "is not a whole number";
  const size = Number(box.dataset.size);
  if (whole && value > size) return `is more than its ${size} samples`;
  return "";
}

function look(plate, weight, whole) {
  const boxes = [...plate.querySelectorAll(".count")];
  const check = plate.querySelector(".check");
  let filled = 0, sum = 0, said = "";
  for (const box of boxes) {
    const wrong = fault(box, whole);
    box.classList.toggle("odd", wrong !== "");
    box.classList.toggle("filled", wrong === "" && box.value.trim() !== "");
    box.setAttribute("aria-invalid", wrong !== "");
    if (wrong !== "" && said === "") said = `${box.parentElement.firstElementChild.textContent} ${wrong}.`;
    if (box.value.trim() !== "") filled += 1;
    if (wrong === "") sum += number(box.value) ?? 0;
  }
  check.classList.toggle("odd", said !== "");
  const parts = [`${filled} of ${boxes.length} pools filled in; sum ${Number(sum.toFixed(6))}.`];
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
  const boxes = [...form.querySelectorAll(".count")];
  for (const plate of form.querySelectorAll(".plate-boxes")) {
    plate.addEventListener("input", () => look(plate, weight, whole));
    look(plate, weight, whole);
  }
  form.addEventListener("keydown", (event) => {
    // On a number pad Enter ends a number; it must not send a sheet that is half filled in.
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    if (boxes.includes(event.target)) next(boxes, event.target, form);
    else boxes[0].focus();
  });
}
