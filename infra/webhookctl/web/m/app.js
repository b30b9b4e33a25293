document.body.append("The console is not built yet.");
