package urifilter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// patience is how long the command line on a host may take for one request.
const patience = 5 * time.Second

// askFilter sends filter requests. A filter that is full refuses them, and that is not a fault
// of the release.
func askFilter(ctx context.Context, d program.Daemon, filter string) error {
	err := probe(ctx, d.Host(), func(ctx context.Context, item string) (bool, error) { return isNew(ctx, d, filter, item) })
	var answered *program.Problem
	if errors.As(err, &answered) && answered.Status == http.StatusInsufficientStorage {
		step.Warn(ctx, "filter %s refuses new items: %v", filter, err)
		return nil
	}
	return err
}

// isNew sends one filter request.
func isNew(ctx context.Context, d program.Daemon, filter, item string) (bool, error) {
	const path = "/api/v1/filter"
	body, err := json.Marshal(map[string]any{"filter_typeid": filter, "uri_list": []string{item}})
	if err != nil {
		return false, err
	}
	a, err := d.Call(ctx, http.MethodPost, path, string(body))
	if err != nil {
		return false, err
	}
	if a.Status != http.StatusOK {
		return false, a.Problem("POST " + path)
	}
	var result struct {
		List  []string `json:"uri_list"`
		Total int      `json:"total"`
	}
	if err := json.Unmarshal([]byte(a.Body), &result); err != nil || result.Total != 1 || len(result.List) > 1 {
		return false, fmt.Errorf("POST %s: not an answer of urifilter: %s", path, a.Short())
	}
	return len(result.List) == 1 && result.List[0] == item, nil
}

// probe asks for an item that nobody has asked for, and a second time, when it is no longer new.
// A filter takes some new items for seen, but not three in a row.
func probe(ctx context.Context, on string, ask func(ctx context.Context, item string) (bool, error)) error {
	for range 3 {
		item := "urifilter-toolkit-probe/" + on + "/" + rand.Text()
		isNew, err := ask(ctx, item)
		if err != nil {
			return err
		}
		if !isNew {
			continue
		}
		if again, err := ask(ctx, item); err != nil {
			return err
		} else if again {
			return errors.New("the filter reported the same item as new twice")
		}
		return nil
	}
	return errors.New("the filter reports three random items as seen\nhint: it may be full: urifilter filters")
}

// askOnHost sends filter requests with the release's own command line, on the host.
func askOnHost(h host.Host, path, url, filter, token string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, item string) (bool, error) {
		script := fmt.Sprintf("read -r URIFILTER_TOKEN; export URIFILTER_TOKEN\nexec %s filter -s %s --type %s --timeout %s -",
			host.Quote(path), host.Quote(url), host.Quote(filter), patience)
		out, err := h.Run(ctx, host.Command{Script: script, Stdin: bytes.NewReader([]byte(token + "\n" + item + "\n"))})
		if err != nil {
			return false, err
		}
		return strings.TrimSpace(out.Stdout) == item, nil
	}
}
