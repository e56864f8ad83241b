package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// importClient speaks to a deployment. Whatever may be tried again is, under the same key, until ctx ends.
type importClient struct {
	base *url.URL
	key  string
	bar  *progressBar
}

// importTask is what the client needs of a task.
type importTask struct {
	ID       string
	State    string
	Progress struct{ Done, Total, Rejected int }
	Problem  *struct{ Code, Title string }
}

func (t importTask) ended() bool { return t.State == "succeeded" || t.State == "failed" }

// importPause is the pause where the deployment recommends none.
const importPause = 2 * time.Second

// send sends the file until it is accepted or refused.
func (c *importClient) send(ctx context.Context, file, media string, i importing) (task importTask, err error) {
	target := c.base.JoinPath("order-imports")
	if i.Reserve {
		target.RawQuery = "reserve_inventory=true"
	}
	_, err = c.ask(ctx, func() (*http.Request, error) {
		f, err := os.Open(file) //nolint:gosec // the very file that the caller names, anew for each try; the transport closes it
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		request.ContentLength = info.Size()
		request.Header.Set("Content-Type", media)
		request.Header.Set("Idempotency-Key", i.IdempotencyKey)
		return request, nil
	}, &task)
	return task, err
}

// wait looks at the task until it ends.
func (c *importClient) wait(ctx context.Context, task importTask) (importTask, error) {
	for {
		pause, err := c.ask(ctx, c.get(ctx, "tasks/"+task.ID, nil), &task)
		if err != nil {
			return task, err
		}
		c.bar.show(task)
		if task.ended() {
			return task, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return task, err
		}
	}
}

// errImport is the exit status of an import that has not placed every order.
var errImport = errors.New("not all orders were placed")

// report lists the rejected rows.
func (c *importClient) report(ctx context.Context, out io.Writer, task importTask) error {
	query := url.Values{"state": {"rejected"}, "page_size": {"100"}}
	for task.Progress.Rejected > 0 {
		var page struct {
			Results []struct {
				Row           int
				ClientOrderID string `json:"client_order_id"`
				Problem       struct {
					Code, Title, Detail string
					Errors              []struct{ Pointer, Reason string }
				}
			}
			Next string `json:"next_page_token"`
		}
		if _, err := c.ask(ctx, c.get(ctx, "tasks/"+task.ID+"/results", query), &page); err != nil {
			return err
		}
		for _, r := range page.Results {
			fmt.Fprintf(out, "row %d %s: %s: %s %s", r.Row, r.ClientOrderID, r.Problem.Code, r.Problem.Title, r.Problem.Detail)
			for _, e := range r.Problem.Errors {
				fmt.Fprintf(out, "; %s %s", e.Pointer, e.Reason)
			}
			fmt.Fprintln(out)
		}
		if page.Next == "" {
			break
		}
		query.Set("page_token", page.Next)
	}
	if task.Problem != nil {
		return fmt.Errorf("task %s failed: %s: %s", task.ID, task.Problem.Code, task.Problem.Title)
	}
	if task.Progress.Rejected > 0 {
		return fmt.Errorf("%w: %d of %d rows were rejected", errImport, task.Progress.Rejected, task.Progress.Total)
	}
	return nil
}

func (c *importClient) get(ctx context.Context, path string, query url.Values) func() (*http.Request, error) {
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	return func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	}
}

// ask makes a request and decodes its answer, and tries again what may end better. It says what pause is recommended.
func (c *importClient) ask(ctx context.Context, request func() (*http.Request, error), into any) (pause time.Duration, err error) {
	for {
		var again bool
		pause, again, err = c.once(request, into)
		if err == nil || !again {
			return pause, err
		}
		if ended := sleep(ctx, pause); ended != nil {
			return pause, errors.Join(err, ended)
		}
	}
}

func (c *importClient) once(request func() (*http.Request, error), into any) (pause time.Duration, again bool, err error) {
	r, err := request()
	if err != nil {
		return 0, false, err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return importPause, true, err
	}
	defer response.Body.Close()
	pause = importPause
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		pause = time.Duration(seconds) * time.Second
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return pause, true, fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode < 300 {
		return pause, false, json.Unmarshal(body, into)
	}
	var problem struct {
		Code, Title, Detail string
		Retryable           bool
		Errors              []struct{ Pointer, Reason string }
	}
	if json.Unmarshal(body, &problem) != nil {
		return pause, response.StatusCode >= 500, fmt.Errorf("answered %s", response.Status)
	}
	text := fmt.Sprintf("%s: %s %s", problem.Code, problem.Title, problem.Detail)
	for _, e := range problem.Errors {
		text += fmt.Sprintf("; %s %s", e.Pointer, e.Reason)
	}
	return pause, problem.Retryable, errors.New(text)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
