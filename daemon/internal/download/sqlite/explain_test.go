package sqlite

import (
	"context"
	"strings"
	"testing"
)

// TestQueriesUseIndexes: none of the frequent queries scans a table from its start, or sorts
// rows that an index could give in order.
func TestQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	const byID = "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"
	for name, test := range map[string]struct {
		query string
		want  []string
		sorts bool
	}{
		"hand out":       {query: handOut, want: []string{"SEARCH tasks USING COVERING INDEX tasks_waiting (job=? AND queue=? AND not_before<?)", "SEARCH w USING INTEGER PRIMARY KEY", "SEARCH tasks USING INTEGER PRIMARY KEY"}, sorts: true},
		"next queues":    {query: nextQueues, want: []string{"SEARCH tasks USING COVERING INDEX tasks_waiting (job=? AND queue>?)", "SEARCH tasks USING COVERING INDEX tasks_waiting (job=? AND queue=?)"}},
		"count ready":    {query: countReady, want: []string{"SCAN tasks USING COVERING INDEX tasks_ready"}, sorts: true},
		"count running":  {query: countRunning, want: []string{"SCAN tasks USING INDEX tasks_running"}, sorts: true},
		"lease":          {query: lease, want: []string{"SCAN tasks USING COVERING INDEX tasks_ready", "USING INTEGER PRIMARY KEY"}},
		"renew":          {query: renew, want: []string{byID}},
		"give back":      {query: giveBack, want: []string{byID}},
		"finish":         {query: settleDone, want: []string{byID}},
		"retry":          {query: retryTask, want: []string{byID}},
		"fail":           {query: settleFailed, want: []string{byID}},
		"sweep ready":    {query: sweepReady, want: []string{"SCAN tasks USING COVERING INDEX tasks_ready"}},
		"sweep running":  {query: sweepRunning, want: []string{"SEARCH tasks USING INDEX tasks_running (until<?)"}},
		"sweep logs":     {query: sweepLogs, want: []string{"SEARCH logs USING COVERING INDEX logs_added (job=? AND added<?)"}},
		"tasks by state": {query: listTasksState, want: []string{"SEARCH tasks USING INDEX tasks_job (job=? AND rowid>?)"}},
		"ready tasks":    {query: listReady, want: []string{"SCAN tasks USING INDEX tasks_ready"}, sorts: true},
		"running tasks":  {query: listRunning, want: []string{"SCAN tasks USING INDEX tasks_running"}, sorts: true},
		"failed tasks":   {query: listFailed, want: []string{"SEARCH tasks USING INDEX tasks_failed (job=? AND rowid>?)"}},
		"tasks":          {query: listTasks, want: []string{"SEARCH tasks USING INTEGER PRIMARY KEY (rowid>?)"}},
		"one task":       {query: listTask, want: []string{byID}},
		"data":           {query: listData, want: []string{"SEARCH d USING INDEX data_job (job=? AND rowid>?)"}},
		"data of a task": {query: listDataOne, want: []string{"SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)", "SEARCH d USING INTEGER PRIMARY KEY"}},
		"logs":           {query: listLogs, want: []string{"SEARCH l USING INDEX logs_added (job=? AND"}},
		"logs of a task": {query: listLogOne, want: []string{"(id=?)", "SEARCH l USING INDEX logs_task (task=?)"}, sorts: true},
		"body":           {query: findBody, want: []string{"(id=?)", "SEARCH d USING INTEGER PRIMARY KEY"}},
	} {
		args := make([]any, strings.Count(test.query, "?"))
		rows, err := s.read.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+test.query, args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: plan\n%s\nwant %q", name, text, want)
			}
		}
		if strings.Contains(text, "TEMP B-TREE") != test.sorts {
			t.Errorf("%s: plan\n%s\nsorts: want %t", name, text, test.sorts)
		}
		for _, line := range plan {
			few := strings.HasPrefix(line, "SCAN q VIRTUAL TABLE") || strings.HasPrefix(line, "SCAN (subquery-") || line == "SCAN first" || line == "SCAN next" // of the query itself
			if strings.HasPrefix(line, "SCAN") && !few && !strings.Contains(line, "json_each") && !strings.Contains(line, "tasks_ready") && !strings.Contains(line, "tasks_running") {
				t.Errorf("%s: plan\n%s\nreads all of a table", name, text)
			}
		}
	}
}
