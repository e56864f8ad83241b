import { within } from "./bounds.js";
import { problemIn, type Problem, type UnknownReason } from "./result.js";
import { retryAfterMs, type Network } from "./send.js";

/** The members of a task that waiting for it needs; GET /tasks/{taskId} answers with more. */
export interface TaskState {
  state: "processing" | "succeeded" | "failed" | "outcome_unknown";
}

export interface WaitOptions<T> {
  signal?: AbortSignal;
  /** Default: 10 minutes. The task goes on without us. */
  deadlineMs?: number;
  /** Called with each state that was read. */
  onProgress?: (task: T) => void;
}

/**
 * `outcome_unknown` is the task's own: some of it waits for something outside, and resolves by itself; wait again
 * later. `unknown` is ours: the task goes on, or it could not be read. `rejected`: it may not be read, or is not there.
 */
export type TaskResult<T extends TaskState> =
  | { kind: "succeeded" | "failed" | "outcome_unknown"; task: T }
  | { kind: "rejected"; problem: Problem }
  | { kind: "unknown"; reason: UnknownReason; task?: T | undefined; problem?: Problem | undefined; cause?: unknown };

export type ReadTask = (
  taskId: string,
  signal: AbortSignal,
) => Promise<{ data?: unknown; error?: unknown; response: Response }>;

const pollMs = 2_000; // where the answer has no Retry-After, or 0

export async function waitForTask<T extends TaskState>(
  read: ReadTask,
  { pause }: Network,
  taskId: string,
  o: WaitOptions<T> = {},
): Promise<TaskResult<T>> {
  let task: T | undefined;
  try {
    return await within(o.deadlineMs ?? 600_000, o.signal, async (signal) => {
      for (;;) {
        const { data, error, response } = await read(taskId, signal);
        if (!response.ok) {
          const problem = problemIn(error);
          if (problem?.retryable === false) return { kind: "rejected", problem };
          return { kind: "unknown", reason: problem ? "gave_up" : "unreadable", task, problem };
        }
        task = data as T;
        o.onProgress?.(task);
        if (task.state !== "processing") return { kind: task.state, task };
        await pause(retryAfterMs(response) || pollMs, signal);
      }
    });
  } catch (cause) {
    return { kind: "unknown", reason: o.signal?.aborted ? "aborted" : "gave_up", task, cause };
  }
}
