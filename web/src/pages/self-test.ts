/** The table of the check on this device. */
import type { SelfTestReport } from "../runtime/index.ts";
import { h, row, table } from "./dom.ts";
import { TEXT } from "./text.ts";

/** Words, then a row per output of each stored reference. */
export function selfTestTable({ device, dtype, passed, results }: SelfTestReport): HTMLElement[] {
  const rows = results.map((result) =>
    row(
      [
        result.reference,
        h("code", {}, result.output),
        TEXT.selfTest.decibels(result.snr),
        TEXT.selfTest.decibels(result.minimum),
        h(
          "span",
          { class: result.passed ? "pill good" : "pill bad" },
          result.passed ? TEXT.selfTest.passed : TEXT.selfTest.failed,
        ),
      ],
      { class: "figures", "data-passed": String(result.passed) },
    ),
  );
  const words = passed ? TEXT.selfTest.allPassed : TEXT.selfTest.someFailed;
  return [
    h("p", { class: passed ? "" : "notice notice-warning", role: "status" }, words),
    table(TEXT.selfTest.caption(device, dtype), TEXT.selfTest.columns, rows),
  ];
}
