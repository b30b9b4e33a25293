// What pages are made of.
export * from "./h.js";
export * from "./api.js";
export * from "./panel.js";
export * from "./route.js";
export * from "./table.js";
export * from "./words.js";
