package mysqltest

import (
	"context"
	"testing"
)

// Committed data survive a kill, and the server restarts at the same address.
func TestDataOutliveKill(t *testing.T) {
	s := Start(t)
	name := s.Database("all")
	s.Exec("create table "+name+".t (k int primary key)", "insert into "+name+".t values (7)")
	addr := s.Addr
	s.Kill()
	db := s.Open(name)
	defer db.Close()
	if err := db.PingContext(context.Background()); err == nil {
		t.Error("a killed server answers")
	}
	s.Run()
	if s.Addr != addr {
		t.Errorf("address %s after the restart, %s before", s.Addr, addr)
	}
	var n int
	if err := db.QueryRowContext(context.Background(), "select count(*) from t where k = 7").Scan(&n); n != 1 || err != nil {
		t.Errorf("%d rows after the restart, %v; want 1", n, err)
	}
}
