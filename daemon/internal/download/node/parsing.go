package node

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// parsing is an engine whose pages the script parse of their job processes.
type parsing struct {
	worker.Engine
	intake *intake.Intake
	added  func() // is called when there is something to hand out
}

// Download adds the task of the run just before the page is stored: a crash in between leaves a run that
// finds no page yet and waits, and the next attempt finds the run already there.
func (p parsing) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	page, err := p.Engine.Download(ctx, w)
	parse := w.Job.Setting.Parse
	if err != nil || parse.Code.Text == "" || w.Task.Script() != download.ScriptDownload {
		return page, err
	}
	if _, err := p.intake.AddThrough(ctx, w.Job, []string{parse.Filter}, []download.NewTask{download.ParseRun(w.Task)}); err != nil {
		if page.Body != nil {
			err = errors.Join(err, page.Body.Close())
		}
		return worker.Page{}, &worker.Failure{Reason: "parse: " + err.Error()}
	}
	p.added()
	return page, nil
}
