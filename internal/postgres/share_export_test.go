package postgres

// Sharing is how many units wait for the next shared commit.
func (db *DB) Sharing() int {
	db.commits.mu.Lock()
	defer db.commits.mu.Unlock()
	return len(db.commits.waiting)
}

// The bounds of shared commits.
const (
	SharedUnits = sharedUnits
	SharedCrowd = sharedCrowd
)
