// What script adds to pages that work without it; each concern has a module.

import "./colours.js";
import "./copying.js";
import "./drafts.js";
import "./failures.js";
import "./focus.js";
import "./forms.js";
import "./keys.js";
import "./picks.js";
import "./polls.js";
import "./reveals.js";
import "./rows.js";
import "./suggestions.js";
import "./scrollers.js";
import "./times.js";
import "./unsent.js";
