package postgres

// Sharing is how many units wait for the next shared commit.
func (db *DB) Sharing() int {
	db.sharers.mu.Lock()
	defer db.sharers.mu.Unlock()
	return len(db.sharers.waiting)
}

// SharedUnits is the bound of one shared commit.
const SharedUnits = sharedUnits
